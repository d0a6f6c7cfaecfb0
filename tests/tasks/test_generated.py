"""Sources of generated tasks: a seed always gives the same tasks, and splits share no problem."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

import pytest

from agentgym.base.errors import TaskError
from agentgym.core.registry import make
from agentgym.core.task import Task, TaskSource, iterate
from agentgym.tasks.code import CodeTasks
from agentgym.tasks.miniwob import MiniWoBTasks
from agentgym.tasks.search import MaskedSpanTasks, SearchTasks
from agentgym.tasks.sql import SQLTasks
from tests.refusals import not_refused, refusal, sampled


class Generated(NamedTuple):
    """A source of generated tasks."""

    source: Callable[[int], TaskSource]
    problem: Callable[[Task], Hashable]
    """A key that is equal for tasks with the same problem."""
    last: str = "test_unseen"
    """The last of its splits."""


def web_tasks(seed: int = 0, **choices: Any) -> TaskSource:
    pytest.importorskip("starlette", reason="needs the [web] extra")
    pytest.importorskip("jinja2", reason="needs the [web] extra")
    from agentgym.tasks.web import WebTasks

    return WebTasks(seed=seed, **choices)


def program(task: Task) -> str:
    """Return the program of a task, or the function in it."""
    return task.gold["code"].split("\n\n\nprint(repr(")[0] if task.tags[1].startswith("trace_") else task.gold["code"]


CORPUS = {"world": 0, "split": "train", "seed": 0, "passages": 1000}
SOURCES = {
    "sql": Generated(lambda seed: SQLTasks(engine="mixed", seed=seed), lambda t: (t.data["domain"], t.gold["sql"])),
    "code": Generated(lambda seed: CodeTasks(seed=seed), program),
    "search": Generated(lambda seed: SearchTasks(passages=1000, seed=seed), lambda t: t.prompt, "test"),
    "masked": Generated(lambda seed: MaskedSpanTasks(CORPUS, seed=seed), lambda t: t.gold["evidence"][0], "test"),
    "miniwob": Generated(lambda seed: MiniWoBTasks("click-test", seed), lambda t: t.data["seed"], "test"),
    "web": Generated(lambda seed: web_tasks(seed), lambda t: (t.data["site"], t.data["seed"]), "test"),
}
every_source = pytest.mark.parametrize("name", SOURCES)


def first_tasks(source: TaskSource, count: int = 12) -> Iterator[Task]:
    for split in source.splits:
        yield from islice(iterate(source, split, count), count)


@every_source
def test_tasks_depend_on_seed_split_and_index_alone(name: str):
    source, other = SOURCES[name].source(1), SOURCES[name].source(2)
    assert isinstance(source, TaskSource)
    assert source.splits[-1] == SOURCES[name].last
    tasks = list(first_tasks(source))
    copy = pickle.loads(pickle.dumps(SOURCES[name].source(1)))
    places = [(split, index) for split in source.splits for index in range(12)]
    assert [copy.get(split, index) for split, index in reversed(places)][::-1] == tasks
    fresh = SOURCES[name].source(1)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda place: fresh.get(*place), places)) == tasks
    assert list(first_tasks(other)) != tasks


@every_source
def test_tasks_are_json_and_found_by_their_ids_alone(name: str):
    source = SOURCES[name].source(0)
    for task in first_tasks(source):
        assert source.find(task.id) == task
        assert Task.from_dict(json.loads(json.dumps(task.to_dict()))) == task
    prefix = source.get("train", 0).id.removesuffix("/train/0")
    wrong = [f"{prefix}/train/x", f"{prefix}/train", f"{prefix}/dev/1", "other/train/1", f"{prefix}/train/1/2", ""]
    assert not_refused(source.find, [(task_id, f"{prefix}/train/0") for task_id in wrong], TaskError) == []
    assert ", ".join(source.splits) in refusal(source.get, "dev", 0, raises=TaskError)
    assert "-1" in refusal(source.get, "train", -1, raises=TaskError)


@sampled(30, 600)
@every_source
def test_splits_share_no_problem(name: str, count: int):
    splits: dict[Hashable, str] = {}
    for seed in (0, 3):
        for task in first_tasks(SOURCES[name].source(seed), count):
            for key in (SOURCES[name].problem(task), task.hash):
                assert splits.setdefault(key, task.split) == task.split, task.id


REFUSED: list[tuple[Callable[..., TaskSource], dict[str, Any], str]] = [
    (SQLTasks, {"domains": ["shopp"]}, "did you mean 'shop'? Choose from: airline"),
    (SQLTasks, {"engine": "mysql"}, "duckdb, sqlite, mixed"),
    (CodeTasks, {"kinds": ["guess"]}, "predict"),
    (SearchTasks, {"relations": ["hat"]}, "trade"),
    (MaskedSpanTasks, {"documents": CORPUS, "masks": 0}, "masks must be numbers from 1"),
    (MiniWoBTasks, {"pages": "click-nothing"}, "click-nothing"),
    (web_tasks, {"sites": ["bank"]}, "unknown site 'bank'"),
]


def test_unknown_choices_are_refused_with_the_known_ones():
    rows = [((source, choices), words) for source, choices, words in REFUSED]
    assert not_refused(lambda row: row[0](**row[1]), rows) == []


def test_the_wording_changes_only_the_prompt():
    for natural, plain in (
        (SQLTasks(engine="mixed"), SQLTasks(engine="mixed", wording="plain")),
        (SearchTasks(passages=1000), SearchTasks(passages=1000, wording="plain")),
    ):
        pairs = list(zip(first_tasks(natural, 30), first_tasks(plain, 30), strict=True))
        assert all((a.id, a.data, a.gold, a.tags) == (b.id, b.data, b.gold, b.tags) for a, b in pairs)
        assert any(a.prompt != b.prompt for a, b in pairs)


# Pins: a suite published as arguments and a seed must not change with the code.

PINNED_SOURCES: dict[str, Callable[[], TaskSource]] = {
    "sql": lambda: SQLTasks(families=["count_equal", "list_sorted", "count_flag"], engine="mixed", seed=1),
    "code": lambda: CodeTasks(families=["tiny_sum", "shopping", "route", "fix_lists", "trace_unseen"], seed=1),
    "search": lambda: SearchTasks(families=["given_sum", "creator_fact", "count_listed"], passages=1000, seed=1),
    "masked": lambda: MaskedSpanTasks(CORPUS, masks=[1, 3]),
    "miniwob": lambda: MiniWoBTasks(["click-test", "click-button"], seed=5),
    "web": lambda: web_tasks(2, sites=["shop", "forum"], families=["forum.edit_locked", "shop.order", "shop.sold_out"]),
}
PINNED = {
    "sql": "0ffa68c98a794518",
    "code": "7da23ae84dcda932",
    "search": "9eb48a93b69a5559",
    "masked": "0910831f31fa3c01",
    "miniwob": "5c6b6505441979f8",
    "web": "112aa142eaf86dde",
}
"""Hashes of the first tasks of every split."""
PINNED_PROBLEMS = {"sql": "a3b6ac4b3d5c6913", "code": "bd318c5783c0f874", "search": "41f1cc6edc3a4970"}
"""Hashes of their ids and golds, which stay the same if prompts are reworded."""
PINNED_PLAIN = {"sql": "38e6c04180fa2ecc", "code": "dda43b562a87fbd6", "search": "9a72172b9de4cd4d"}
"""Hashes of the first tasks of the recipes for a tiny model, whose results depend on every word."""


def hashed(lines: Iterable[str]) -> str:
    whole = hashlib.sha256()
    for line in lines:
        whole.update(f"{line}\n".encode())
    return whole.hexdigest()[:16]


@every_source
def test_the_tasks_of_a_seed_never_change(name: str):
    tasks = list(first_tasks(PINNED_SOURCES[name]()))
    problems = hashed(json.dumps([task.id, task.gold], sort_keys=True, default=str) for task in tasks)
    assert problems == PINNED_PROBLEMS.get(name, problems)
    assert hashed(f"{task.id} {task.hash}" for task in tasks) == PINNED[name]


@pytest.mark.parametrize("name", PINNED_PLAIN)
def test_the_plain_wording_for_tiny_models_never_changes(name: str):
    pytest.importorskip("pydantic", reason="needs the [train] extra")
    from agentgym.trainers.config import load_config

    recipe = load_config(name)
    assert recipe.env_kwargs["wording"] == "plain"
    env = make(name, **recipe.env_kwargs)
    try:
        assert hashed(f"{task.id} {task.hash}" for task in first_tasks(env.tasks)) == PINNED_PLAIN[name]
    finally:
        env.close()
