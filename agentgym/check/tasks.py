"""Checks of the task source: tasks are fixed, have ids and JSON forms, and no problem occurs in two splits."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agentgym.base.errors import TaskError
from agentgym.check.catalog import check
from agentgym.check.isolation import ROOTS
from agentgym.check.outcomes import CheckFailed, CheckSkipped, Finding
from agentgym.check.play import canonical, difference, must_equal, short
from agentgym.check.seeding import SAME_EPISODE
from agentgym.check.subject import Subject
from agentgym.core.task import Task, TaskSource

_MORE, _MORE_SECONDS = 400, 0.25
"""Additional tasks to compare per split, and the seconds after which to stop loading them."""

_FEWEST, _SHARE = 3, 0.05
"""Twins that count as shared problems: at least this many, and this share of the smaller split."""

_SPACE, _NUMBER = re.compile(r"\s+"), re.compile(r"\d+")

_SERIAL_CHARS = 40
"""Longer values count as content, even if they contain a number."""

_ADVICE = (
    "assign content to splits with agentgym.core.task.split_of, or generate them from parts that have nothing in common"
)

Fields = Mapping[str, Any]
"""A problem as a flat mapping with keys such as `prompt`, `data.name` and `gold.name`."""


@check("splits-disjoint", "no problem is in two splits")
def splits_disjoint(subject: Subject) -> Finding:
    """Tasks of different splits differ in more than letter case, white space, numbering, list order or one field."""
    if len(subject.scanned) == 1:
        raise CheckSkipped("it has only one split")
    with subject.env() as env:
        splits = {split: [*tasks, *_more(env.tasks, split, len(tasks))] for split, tasks in subject.scanned.items()}
    where: dict[str, Task] = {}
    for task in _all(splits):
        twin = where.setdefault(canonical(_plain(_fields(task), (task.id, task.split))), task)
        if twin.split != task.split:
            raise CheckFailed(f"{twin.id!r} and {task.id!r} are the same problem; {_ADVICE}")
    problems = {task.id: _plain_fields(task) for task in _all(splits)}
    for left_out, view in _views([[problems[task.id] for task in tasks] for tasks in splits.values()]):
        if (twins := _twins(splits, lambda task, view=view: canonical(view(problems[task.id])))) is not None:
            count, task, other = twins
            raise CheckFailed(
                f"{task.id!r} and {other.id!r} are the same problem but for {left_out}, and so are {count - 1} others; "
                f"{_ADVICE}"
            )
    return f"compared: {', '.join(f'{split} {len(tasks)}' for split, tasks in splits.items())}"


def _all(splits: Mapping[str, Sequence[Task]]) -> Iterator[Task]:
    for tasks in splits.values():
        yield from tasks


def _more(source: TaskSource, split: str, start: int) -> Iterator[Task]:
    """Yield tasks after the first `known`, spread over the split; in sequence if the split is endless."""
    size = source.size(split)
    until = time.monotonic() + _MORE_SECONDS
    step = 1 if size is None else max(1, (size - start) // _MORE)
    for index in range(start, start + _MORE * step if size is None else size, step):
        if time.monotonic() > until:
            return
        yield source.get(split, index)


def _fields(task: Task) -> Fields:
    parts = {"data": task.data, "gold": task.gold}
    return {"prompt": task.prompt, **{f"{part}.{key}": value for part in parts for key, value in parts[part].items()}}


def _plain_fields(task: Task) -> Fields:
    """Return the fields of a task normalised for case and white space, with its id and split name blanked."""
    fields = _fields(task).items()
    return {name: "" if value == task.split else _plain(value, (task.id,)) for name, value in fields}


def _plain(value: Any, no_content: tuple[str, ...]) -> Any:
    """Return a value normalised for letter case and white space, with the texts in `no_content` blanked."""
    if isinstance(value, Mapping):
        return {key: _plain(item, no_content) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, no_content) for item in value]
    if not isinstance(value, str):
        return value
    return "" if value in no_content else _SPACE.sub(" ", value).strip().casefold()


def _views(splits: Sequence[Sequence[Fields]]) -> Iterator[tuple[str, Callable[[Fields], Fields]]]:
    """Yield functions that remove one aspect of a problem, each with a name for that aspect.

    The gold is never removed: a different answer makes a different problem.
    """
    names = dict.fromkeys(name for problems in splits for problem in problems for name in problem if _is_public(name))
    for name in names:
        yield f"the {name}", lambda problem, name=name: {**problem, name: None}
    yield "the order of lists", _in_order
    serial = {
        name for name in names if all(_is_serial([problem.get(name) for problem in problems]) for problems in splits)
    }
    if serial:
        left_out = ", ".join(["the numbers in the prompt", *sorted(serial)])
        yield left_out, lambda problem: _without_numbers({**problem, **dict.fromkeys(serial)})


def _is_public(name: str) -> bool:
    return not name.startswith("gold.")


def _is_serial(values: Sequence[Any]) -> bool:
    """Return whether the values of a field could be serial numbers: all different, each short with one number."""
    texts = [json.dumps(value) for value in values if not isinstance(value, bool | float)]
    return len(texts) == len(values) == len(set(texts)) and all(
        len(text) <= _SERIAL_CHARS and len(_NUMBER.findall(text)) == 1 for text in texts
    )


def _without_numbers(problem: Fields) -> Fields:
    return {**problem, "prompt": _NUMBER.sub("", str(problem["prompt"]))}


def _in_order(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _in_order(item) for key, item in value.items()}
    return sorted((_in_order(item) for item in value), key=canonical) if isinstance(value, list) else value


def _twins(splits: Mapping[str, Sequence[Task]], key: Callable[[Task], str]) -> tuple[int, Task, Task] | None:
    """Return the number of tasks with a twin in another split and one such pair; `None` if that may be chance.

    It may be chance if there are few twins, or if a split contains twins of its own.
    """
    keys = {split: [key(task) for task in tasks] for split, tasks in splits.items()}
    if any(count > 1 for own_keys in keys.values() for count in Counter(own_keys).values()):
        return None
    where: dict[str, Task] = {}
    twins = [
        (where[own], task)
        for split, tasks in splits.items()
        for own, task in zip(keys[split], tasks, strict=True)
        if where.setdefault(own, task) is not task
    ]
    enough = max(_FEWEST, _SHARE * min(len(tasks) for tasks in splits.values()))
    return (len(twins), *twins[0]) if len(twins) >= enough else None


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


CHECKS = (splits_disjoint, task_ids, task_json)
