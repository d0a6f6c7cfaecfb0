"""Checks of the task source: tasks are fixed, can be found by id, and survive a round trip through JSON."""

from __future__ import annotations

import json
from typing import Any

from agentgym.base.errors import TaskError
from agentgym.check.catalog import check
from agentgym.check.isolation import ROOTS
from agentgym.check.outcomes import CheckFailed, Finding
from agentgym.check.play import canonical, difference, must_equal, short
from agentgym.check.seeding import SAME_EPISODE
from agentgym.check.subject import Subject
from agentgym.core.task import Task, TaskSource

_LOOKED_UP = 40
"""Tasks per split to look up again."""


@check("task-ids", "task ids are unique and stable, and the source finds them", causes=ROOTS)
def task_ids(subject: Subject) -> Finding:
    """`find(id)` returns the task, also in another source; unknown ids, splits and indices raise `TaskError`."""
    tasks_by_id: dict[str, Task] = {}
    with subject.env() as env:
        for split, tasks in subject.scanned.items():
            for index, task in enumerate(tasks):
                if task.split != split:
                    raise CheckFailed(f"task {task.id!r} came from split {split!r}, but its split is {task.split!r}")
                if (twin := tasks_by_id.setdefault(task.id, task)) is not task:
                    raise CheckFailed(f"the id {task.id!r} names two tasks: {short(twin.prompt)}, {short(task.prompt)}")
                if index < _LOOKED_UP:
                    _must_be_found(env.tasks, split, index, task)
        _must_be_unknown(env.tasks)
    return f"{len(tasks_by_id)} ids"


def _must_be_found(source: TaskSource, split: str, index: int, task: Task) -> None:
    if source.get(split, index) != task:
        raise CheckFailed(
            f"task {index} of {split!r} differs in a second task source; generate it from (split, index) alone"
        )
    try:
        match = source.find(task.id)
    except Exception as error:
        raise CheckFailed(f"find({task.id!r}) raised {type(error).__name__}: {error}; return the task") from error
    if match != task:
        raise CheckFailed(f"find({task.id!r}) returns a different task from get({split!r}, {index})")


def _must_be_unknown(source: Any) -> None:
    split = source.splits[0]
    wrong = [
        ("find('no such task')", lambda: source.find("no such task")),
        ("get('no such split', 0)", lambda: source.get("no such split", 0)),
        (f"get({split!r}, -1)", lambda: source.get(split, -1)),
    ]
    if (size := source.size(split)) is not None:
        wrong.append((f"get({split!r}, {size})", lambda: source.get(split, size)))
    for call, attempt in wrong:
        try:
            attempt()
        except TaskError:
            continue
        except Exception as error:
            raise CheckFailed(f"{call} raised {type(error).__name__}: {error}; raise TaskError") from error
        raise CheckFailed(f"{call} returned a task; raise TaskError for a task that does not exist")


@check("task-json", "tasks survive a round trip through JSON", causes=SAME_EPISODE)
def task_json(subject: Subject) -> Finding:
    """A task read back from JSON is the same task and opens the same episode."""
    with subject.env() as env:
        for tasks in subject.scanned.values():
            for task in tasks:
                try:
                    again = Task.from_dict(json.loads(json.dumps(task.to_dict())))
                except (TypeError, ValueError, TaskError) as error:
                    raise CheckFailed(f"task {task.id!r}: {error}; keep to JSON data in data and gold") from error
                if again != task:
                    name = next(n for n in ("data", "gold", "tags", "prompt") if getattr(again, n) != getattr(task, n))
                    change = difference(repr(getattr(task, name)), repr(getattr(again, name)))
                    raise CheckFailed(
                        f"task {task.id!r}: after JSON, {name} differs: {change}; use lists for tuples, text for keys"
                    )
        for task in subject.tasks:
            again = Task.from_dict(json.loads(json.dumps(task.to_dict())))
            openings = [canonical(env.reset(seed=subject.seed, options={"task": variant})) for variant in (task, again)]
            must_equal(openings[:1], openings[1:], f"task {task.id!r}, and read back from JSON", "Keep to JSON data.")
    return f"{sum(map(len, subject.scanned.values()))} tasks"


CHECKS = (task_ids, task_json)
