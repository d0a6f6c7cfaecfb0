"""The source of generated SQL questions: splits, levels, families and domains."""

from __future__ import annotations

from collections import Counter

from agentgym.core.task import iterate
from agentgym.tasks.sql import SQLTasks
from agentgym.tasks.sql.domains import HELD_OUT, domain_names
from agentgym.tasks.sql.questions import FAMILIES

SPLITS = ("train", "validation", "test", "test_unseen")


def test_held_out_domains_are_only_in_test_unseen():
    for split in SPLITS:
        domains = {task.data["domain"] for task in iterate(SQLTasks(), split, 150)}
        allowed = set(HELD_OUT) if split == "test_unseen" else set(domain_names()) - set(HELD_OUT)
        assert domains == allowed


def test_the_engine_does_not_change_the_split_of_a_question():
    queries: dict[tuple[str, str], str] = {}
    for split in SPLITS[:3]:
        for engine in ("duckdb", "sqlite"):
            for task in iterate(SQLTasks(engine=engine), split, 100):
                assert queries.setdefault((task.data["domain"], task.gold["sql"]), split) == split


def test_levels_and_families_are_equally_frequent():
    per_family = {level: sum(f.level == level for f in FAMILIES.values()) for level in range(1, 6)}
    for level, count in per_family.items():
        tasks = list(iterate(SQLTasks(difficulty=level), "train", 4 * count))
        assert {task.difficulty for task in tasks} == {level}
        assert set(Counter(task.tags[0] for task in tasks).values()) == {4}
    assert Counter(task.difficulty for task in iterate(SQLTasks(), "train", 50)) == dict.fromkeys(range(1, 6), 10)
