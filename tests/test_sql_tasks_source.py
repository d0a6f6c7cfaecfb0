from __future__ import annotations

import json
import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentgym.errors import TaskError, UsageError
from agentgym.task import TaskSource, iterate
from agentgym.tasks.sql import SQLTasks
from agentgym.tasks.sql.domains import HELD_OUT, domain_names, load_domain
from agentgym.tasks.sql.questions import FAMILIES

SPLITS = ("train", "validation", "test", "test_unseen")


def test_is_a_task_source_with_four_endless_splits():
    source = SQLTasks()
    assert isinstance(source, TaskSource)
    assert source.splits == SPLITS
    assert [source.size(split) for split in SPLITS] == [None] * 4


def test_same_source_gives_the_same_tasks_in_any_order():
    forward = [SQLTasks().get("train", index) for index in range(60)]
    source = SQLTasks()
    assert [source.get("train", index) for index in reversed(range(60))][::-1] == forward
    assert [SQLTasks(seed=1).get("train", index) for index in range(60)] != forward


def test_a_pickled_source_gives_the_same_tasks():
    source = SQLTasks(difficulty=[1, 5], engine="mixed")
    twin = pickle.loads(pickle.dumps(source))
    assert list(iterate(twin, "test", 30)) == list(iterate(source, "test", 30))


def test_threads_get_the_same_tasks():
    expected = list(iterate(SQLTasks(seed=5), "train", 120))
    source = SQLTasks(seed=5)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda index: source.get("train", index), range(120))) == expected


def test_tasks_are_json_and_ids_find_them():
    source = SQLTasks(engine="mixed")
    for split in SPLITS:
        for task in iterate(source, split, 30):
            assert source.find(task.id) == task
            assert json.loads(json.dumps(task.to_dict())) == task.to_dict()


@pytest.mark.parametrize("task_id", ["sql/train/x", "sql/train", "sql/dev/1", "code/train/1", "sql/train/1/2", ""])
def test_ids_that_name_no_task_are_refused(task_id: str):
    with pytest.raises(TaskError, match="sql/train/0"):
        SQLTasks().find(task_id)


def test_no_query_on_a_domain_is_asked_in_two_splits():
    owner: dict[tuple[str, str], str] = {}
    for source in (SQLTasks(), SQLTasks(seed=3, databases_per_domain=2)):
        for split in SPLITS:
            for task in iterate(source, split, 800):
                key = (task.data["domain"], task.gold["sql"])
                assert owner.setdefault(key, split) == split


def test_the_engine_does_not_move_a_question_to_another_split():
    queries = {}
    for split in SPLITS[:3]:
        for task in iterate(SQLTasks(engine="sqlite"), split, 500):
            assert queries.setdefault((task.data["domain"], task.gold["sql"]), split) == split


def test_held_out_domains_are_in_test_unseen_and_nowhere_else():
    for split in SPLITS:
        seen = {task.data["domain"] for task in iterate(SQLTasks(), split, 300)}
        expected = set(HELD_OUT) if split == "test_unseen" else set(domain_names()) - set(HELD_OUT)
        assert seen == expected


def test_held_out_domains_share_no_table_name_with_the_others():
    def tables(names: list[str]) -> set[str]:
        return {table.name for name in names for table in load_domain(name).tables}

    assert not tables(list(HELD_OUT)) & tables([name for name in domain_names() if name not in HELD_OUT])


def test_levels_and_families_come_up_equally_often():
    per_family = {level: sum(f.level == level for f in FAMILIES.values()) for level in range(1, 6)}
    for level, count in per_family.items():
        tasks = list(iterate(SQLTasks(difficulty=level), "train", 4 * count))
        assert {task.difficulty for task in tasks} == {level}
        assert set(Counter(task.tags[0] for task in tasks).values()) == {4}
    assert Counter(task.difficulty for task in iterate(SQLTasks(), "train", 50)) == dict.fromkeys(range(1, 6), 10)


def test_there_are_enough_families_and_phrasings():
    assert len(FAMILIES) >= 44
    assert sum(family.level == 1 for family in FAMILIES.values()) >= 8
    assert all(len(set(family.phrasings)) >= 3 for family in FAMILIES.values())


def test_choices_restrict_the_tasks():
    source = SQLTasks(difficulty=[1, 2], families=["count_all", "top_one", "rank_where"], domains=["shop", "zoo"])
    tasks = list(iterate(source, "train", 20)) + list(iterate(source, "test_unseen", 20))
    assert {task.tags[0] for task in tasks} == {"count_all", "top_one"}
    assert {task.data["domain"] for task in tasks} == {"shop", "zoo"}
    assert SQLTasks(domains=["zoo"]).splits == ("test_unseen",)
    assert SQLTasks(domains=["shop"]).splits == SPLITS[:3]


def test_databases_per_domain_bounds_the_databases():
    tasks = iterate(SQLTasks(databases_per_domain=2, seed=7), "train", 300)
    assert {task.data["database_seed"] for task in tasks} == {7000, 7001}


def test_mixed_engines_come_up_both():
    tasks = list(iterate(SQLTasks(engine="mixed"), "train", 60))
    assert {task.data["dialect"] for task in tasks} == {"duckdb", "sqlite"}


def test_what_the_policy_may_see_holds_no_gold():
    for task in iterate(SQLTasks(), "train", 200):
        assert set(task.data) == {"domain", "database_seed", "dialect"}
        assert "SELECT" not in task.prompt


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"difficulty": 9}, r"unknown difficulty 9\. Choose from: 1, 2, 3, 4, 5"),
        ({"difficulty": []}, "no difficulty was given"),
        ({"families": ["count_al"]}, r"unknown family 'count_al'; did you mean 'count_all'\? Choose from: count_all"),
        ({"domains": ["shopp"]}, r"unknown domain 'shopp'; did you mean 'shop'\? Choose from: airline"),
        ({"engine": "mysql"}, "engine must be one of duckdb, sqlite, mixed, not 'mysql'"),
        ({"databases_per_domain": 0}, "databases_per_domain must be"),
        ({"difficulty": 1, "families": ["rank_where"]}, "no family fits all of this"),
    ],
)
def test_unknown_choices_are_refused_with_the_valid_ones(arguments: dict, message: str):
    with pytest.raises(UsageError, match=message):
        SQLTasks(**arguments)


def test_unknown_splits_and_numbers_are_refused():
    source = SQLTasks()
    with pytest.raises(TaskError, match="train, validation, test, test_unseen"):
        source.get("dev", 0)
    with pytest.raises(TaskError, match="-1"):
        source.get("train", -1)


def test_a_family_without_any_question_for_a_split_says_so():
    source = SQLTasks(families=["count_all"], domains=["films"])
    empty = [split for split in source.splits if split != "train"]
    with pytest.raises(TaskError, match="count_all"):
        [source.get(split, 0) for split in [*empty, "train"]]
