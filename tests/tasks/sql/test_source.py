"""The source of generated SQL questions: splits, levels, families and domains."""

from __future__ import annotations

from collections import Counter

import pytest

from agentgym.base.errors import TaskError
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
    assert len(FAMILIES) >= 44
    assert per_family[1] >= 8
    assert all(len(set(family.phrasings)) >= 3 for family in FAMILIES.values())


def test_choices_restrict_the_tasks():
    source = SQLTasks(difficulty=[1, 2], families=["count_all", "top_one", "rank_where"], domains=["shop", "zoo"])
    tasks = list(iterate(source, "train", 20)) + list(iterate(source, "test_unseen", 20))
    assert {task.tags[0] for task in tasks} == {"count_all", "top_one"}
    assert {task.data["domain"] for task in tasks} == {"shop", "zoo"}
    assert SQLTasks(domains=["zoo"]).splits == ("test_unseen",)
    assert SQLTasks(domains=["shop"]).splits == SPLITS[:3]
    few = list(iterate(SQLTasks(databases_per_domain=2, seed=7, engine="mixed"), "train", 300))
    assert {task.data["database_seed"] for task in few} == {7000, 7001}
    assert {task.data["dialect"] for task in few} == {"duckdb", "sqlite"}


def test_a_family_without_questions_for_a_split_is_reported():
    source = SQLTasks(families=["count_all"], domains=["films"])
    empty = [split for split in source.splits if split != "train"]
    with pytest.raises(TaskError, match="count_all"):
        [source.get(split, 0) for split in [*empty, "train"]]
