"""Generated tasks stay the same: a suite that was published as arguments and a seed must not change with the code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator

import pytest

from agentgym.registry import make
from agentgym.task import Task, TaskSource, iterate
from agentgym.tasks.code import CodeTasks
from agentgym.tasks.miniwob import MiniWoBTasks
from agentgym.tasks.search import MaskedSpanTasks, SearchTasks
from agentgym.tasks.sql import SQLTasks


def web_tasks() -> TaskSource:
    pytest.importorskip("starlette", reason="needs the [web] extra")
    pytest.importorskip("jinja2", reason="needs the [web] extra")
    from agentgym.tasks.web import WebTasks

    return WebTasks(sites=["shop", "forum"], families=["forum.edit_locked", "shop.order", "shop.sold_out"], seed=2)


SOURCES: dict[str, Callable[[], TaskSource]] = {
    "sql": lambda: SQLTasks(families=["count_equal", "list_sorted", "count_flag"], engine="mixed", seed=1),
    "code": lambda: CodeTasks(families=["tiny_sum", "shopping", "route", "fix_lists", "trace_unseen"], seed=1),
    "search": lambda: SearchTasks(families=["given_sum", "creator_fact", "count_listed"], passages=1000, seed=1),
    "masked": lambda: MaskedSpanTasks({"world": 0, "split": "train", "seed": 0, "passages": 1000}, masks=[1, 3]),
    "miniwob": lambda: MiniWoBTasks(["click-test", "click-button"], seed=5),
    "web": web_tasks,
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
"""Hashes of their ids and golds: a prompt may be worded better, the problem stays."""
PINNED_PLAIN = {"sql": "38e6c04180fa2ecc", "code": "dda43b562a87fbd6", "search": "9a72172b9de4cd4d"}
"""Hashes of the first tasks of the recipes for a tiny model, whose results depend on every word."""


def first_tasks(source: TaskSource) -> Iterator[Task]:
    for split in source.splits:
        yield from iterate(source, split, 12)


def hashed(lines: Iterator[str]) -> str:
    whole = hashlib.sha256()
    for line in lines:
        whole.update(f"{line}\n".encode())
    return whole.hexdigest()[:16]


@pytest.mark.parametrize("name", SOURCES)
def test_the_tasks_of_a_seed_never_change(name: str):
    assert hashed(f"{task.id} {task.hash}" for task in first_tasks(SOURCES[name]())) == PINNED[name]


@pytest.mark.parametrize("name", PINNED_PROBLEMS)
def test_better_words_never_change_the_problem(name: str):
    problems = (json.dumps([task.id, task.gold], sort_keys=True, default=str) for task in first_tasks(SOURCES[name]()))
    assert hashed(problems) == PINNED_PROBLEMS[name]


@pytest.mark.parametrize("name", PINNED_PLAIN)
def test_what_a_tiny_model_reads_never_changes(name: str):
    pytest.importorskip("pydantic", reason="needs the [train] extra")
    from agentgym.trainers.config import load_config

    recipe = load_config(name)
    assert recipe.env_kwargs["wording"] == "plain"
    env = make(name, **recipe.env_kwargs)
    try:
        assert hashed(f"{task.id} {task.hash}" for task in first_tasks(env.tasks)) == PINNED_PLAIN[name]
    finally:
        env.close()
