"""Generated tasks stay the same: a suite that was published as arguments and a seed must not change with the code."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from agentgym.task import TaskSource, iterate
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
    "sql": "437cf4498dbb1085",
    "code": "d1352de6de0487be",
    "search": "9e5a293e0e90ba92",
    "masked": "0910831f31fa3c01",
    "miniwob": "5c6b6505441979f8",
    "web": "7693aded47fb17ab",
}
"""Hashes of the first tasks of every split."""


@pytest.mark.parametrize("name", SOURCES)
def test_the_tasks_of_a_seed_never_change(name: str):
    source, pinned = SOURCES[name](), hashlib.sha256()
    for split in source.splits:
        for task in iterate(source, split, 12):
            pinned.update(f"{task.id} {task.hash}\n".encode())
    assert pinned.hexdigest()[:16] == PINNED[name]
