"""Tasks and task sources. A task is plain data; the part for the grader (`gold`) never reaches the policy.

A `TaskSource` is deterministic: the same source always gives the same task for the same split and index. A manifest
(JSONL of tasks with their hashes) pins a suite exactly.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from agentgym.base.errors import AgentGymError, TaskError, UsageError
from agentgym.base.fields import Rules, check_fields, is_count, is_object, is_text, or_null, required_fields
from agentgym.base.json_lines import MAX_LINE, json_lines, parse_line
from agentgym.base.output_files import refuse_to_replace

TRAIN, VALIDATION, TEST = "train", "validation", "test"
TEST_UNSEEN = "test_unseen"
"""The split for held-out content, such as databases or kinds of task that occur in no other split."""
SHARES: Mapping[str, float] = {TRAIN: 0.8, VALIDATION: 0.1, TEST: 0.1}
"""The usual shares of the splits (see `split_of`)."""


@dataclass(frozen=True)
class Task:
    """One problem: the prompt, the data to stage it, and the data to grade it.

    All fields are JSON data, so a task can be saved, hashed and sent anywhere.
    """

    id: str
    """Stable and unique within its source, e.g. `sql/train/17`."""
    split: str
    prompt: str
    difficulty: int = 1
    """From 1 (easy) upwards."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Data the environment needs to stage the task; the policy may see it through tools."""
    gold: Mapping[str, Any] = field(default_factory=dict)
    """Data the grader and the reference solution need; the policy must never see it."""
    tags: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        """Content hash (hex SHA-256) of everything but the id and the split: equal hashes mean the same problem."""
        if "hash" not in self.__dict__:  # not a `cached_property`: Python 3.11 has one lock for all instances
            self.__dict__["hash"] = self._hashed()
        return self.__dict__["hash"]

    def _hashed(self) -> str:
        content = {name: getattr(self, name) for name in _HASHED}
        return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return the task as JSON data, with its hash."""
        return asdict(self) | {"tags": list(self.tags), "hash": self.hash}

    @classmethod
    def from_dict(cls, data: Any) -> Task:
        """Rebuild a task from the output of `to_dict`. The data is not trusted.

        Raises:
            UsageError: A field is missing, unknown or wrong.
            TaskError: The content does not match its recorded hash.
        """
        check_fields(data, _FIELDS, _REQUIRED, "a task")
        values: dict[str, Any] = {**data, "tags": tuple(data.get("tags", ()))}
        recorded = values.pop("hash", None)
        task = cls(**values)
        if recorded is not None and recorded != task.hash:
            raise TaskError(f"task {task.id!r} was changed: its hash is {task.hash[:12]}, recorded was {recorded[:12]}")
        return task


_HASHED = tuple(item.name for item in fields(Task) if item.name not in ("id", "split"))
_FIELDS: Rules = {
    **dict.fromkeys(("id", "split", "prompt"), (is_text, "text")),
    "difficulty": (is_count, "a whole number from 0"),
    "data": (is_object, "an object"),
    "gold": (is_object, "an object"),
    "tags": (lambda value: isinstance(value, list | tuple) and all(map(is_text, value)), "a list of texts"),
    "hash": (or_null(is_text), "text or null"),
}
_REQUIRED = required_fields(Task)


@runtime_checkable
class TaskSource(Protocol):
    """Where an environment's tasks come from. Implementations are deterministic, picklable and cheap to build."""

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits, `train` first if there is one. Splits share no task content."""
        ...

    def size(self, split: str) -> int | None:
        """Number of tasks in `split`, or `None` if it is endless. Raises `TaskError` for an unknown split."""
        ...

    def get(self, split: str, index: int) -> Task:
        """Return task number `index` (from 0) of `split`. Raises `TaskError` if it does not exist."""
        ...

    def find(self, task_id: str) -> Task:
        """Return the task with this id. Raises `TaskError` for an unknown id."""
        ...


def check_split(source: TaskSource, split: str) -> str:
    """Return `split` if the source has it, else raise `TaskError` listing its splits."""
    if split not in source.splits:
        raise TaskError(f"unknown split {split!r}; this task source has: {', '.join(source.splits)}")
    return split


def default_split(source: TaskSource, preferred: str) -> str:
    """Return the split to use by default: `preferred`, or a substitute that the source has.

    The substitute for `test` is `validation`, the only labelled split of data sets with hidden answers.
    """
    for split in (preferred, VALIDATION) if preferred == TEST else (preferred,):
        if split in source.splits:
            return split
    return source.splits[0]


def iterate(source: TaskSource, split: str, limit: int | None = None, start: int = 0) -> Iterator[Task]:
    """Yield tasks of `split` in order from index `start`, at most `limit` of them."""
    size = source.size(check_split(source, split))
    stop = size if limit is None else start + limit if size is None else min(size, start + limit)
    if stop is None:
        raise TaskError(f"split {split!r} has no end; pass a limit")
    for index in range(start, stop):
        yield source.get(split, index)


class TaskList:
    """A task source over a list of tasks, for example from a manifest or a data set.

    Splits must not share content: two tasks with the same hash in different splits raise `TaskError`.
    """

    def __init__(self, tasks: Iterable[Task]):
        self._by_split: dict[str, list[Task]] = {}
        self._by_id: dict[str, Task] = {}
        where: dict[str, Task] = {}
        for task in tasks:
            if task.id in self._by_id:
                raise TaskError(f"task id {task.id!r} appears twice")
            twin = where.setdefault(task.hash, task)
            if twin.split != task.split:
                raise TaskError(f"tasks {twin.id!r} ({twin.split}) and {task.id!r} ({task.split}) are the same problem")
            self._by_id[task.id] = task
            self._by_split.setdefault(task.split, []).append(task)
        if not self._by_id:
            raise TaskError("a task list needs at least one task")

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits, in order of first appearance."""
        return tuple(self._by_split)

    def size(self, split: str) -> int:
        """Number of tasks in `split`."""
        return len(self._by_split[check_split(self, split)])

    def get(self, split: str, index: int) -> Task:
        """Return task number `index` of `split`."""
        tasks = self._by_split[check_split(self, split)]
        if not 0 <= index < len(tasks):
            raise TaskError(f"split {split!r} has tasks 0 to {len(tasks) - 1}, not {index}")
        return tasks[index]

    def find(self, task_id: str) -> Task:
        """Return the task with this id."""
        if task_id not in self._by_id:
            raise TaskError(f"no task {task_id!r} in this list of {len(self._by_id)}")
        return self._by_id[task_id]


class GeneratedTasks:
    """A task source over a pure function: the generator makes each task from its split and index.

    Args:
        name: Prefix of the task ids (`name/split/index`).
        generate: `(split, index) -> Task`; must depend on its arguments alone.
        sizes: Number of tasks per split; `None` is unlimited.
    """

    def __init__(self, name: str, generate: Callable[[str, int], Task], sizes: Mapping[str, int | None]):
        self._name, self._generate, self._sizes = name, generate, dict(sizes)

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(self._sizes)

    def size(self, split: str) -> int | None:
        """Number of tasks in `split`, or `None` if unlimited."""
        return self._sizes[check_split(self, split)]

    def get(self, split: str, index: int) -> Task:
        """Generate task number `index` of `split`."""
        size = self._sizes[split] if split in self._sizes else self.size(split)
        if index < 0 or (size is not None and index >= size):
            raise TaskError(f"split {split!r} has no task {index}; it has {'no end' if size is None else size}")
        return self._generate(split, index)

    def find(self, task_id: str) -> Task:
        """Generate the task with an id of the form `name/split/index`."""
        return self.get(*parse_task_id(task_id, self._name, self.splits))


def parse_task_id(task_id: str, name: str, splits: Sequence[str]) -> tuple[str, int]:
    """Return the split and index in an id of the form `name/split/index`.

    Raises:
        TaskError: The id is malformed or has another name or split; the message shows a valid id.
    """
    head, _, index = task_id.rpartition("/")
    prefix, _, split = head.rpartition("/")
    if prefix != name or split not in splits or not index.isdecimal():
        raise TaskError(f"no task {task_id!r}; ids look like {name}/{splits[0]}/0")
    return split, int(index)


def split_of(content: str, shares: Mapping[str, float]) -> str:
    """Assign content to a split by its hash alone, so that the same content is never in two splits.

    Args:
        content: Whatever makes two tasks the same problem.
        shares: Maps a split's name to its share; the shares add up to 1.
    """
    point = int.from_bytes(hashlib.sha256(content.encode()).digest()[:8], "big") / 2**64
    reached = 0.0
    for split, share in shares.items():
        reached += share
        if point < reached:
            return split
    return list(shares)[-1]


def write_manifest(path: Path, tasks: Sequence[Task]) -> None:
    """Write tasks as a manifest: one JSON object per line, each with its hash.

    Raises:
        UsageError: The file exists and is not a manifest.
    """
    refuse_to_replace(path, "a manifest of tasks", _is_manifest)
    text = "".join(json.dumps(task.to_dict(), ensure_ascii=False) + "\n" for task in tasks)
    path.write_text(text, encoding="utf-8")


KEYED = "keyed:"
"""Prefix of hashes that a server has keyed with a secret, so that its clients cannot guess small golds."""


def may_be_same(left: str, right: str) -> bool:
    """Whether two hashes may be of the same task: a keyed hash cannot be compared with a plain one."""
    return left == right or left.startswith(KEYED) != right.startswith(KEYED)


def _is_manifest(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            Task.from_dict(parse_line(file.readline(MAX_LINE)))
    except (OSError, ValueError, AgentGymError):
        return False
    return True


def _hashed(task: Task) -> Task:
    """Compute and cache the task's hash. Raises `UnicodeEncodeError` for text with lone surrogates."""
    assert task.hash
    return task


def read_manifest(path: Path) -> TaskList:
    """Read a manifest.

    Raises:
        UsageError: The file cannot be read, or a line is not a task; the message names the line.
        TaskError: A task was changed, or two tasks conflict with each other.
    """
    tasks = manifest_tasks(path)
    try:
        return TaskList(tasks)
    except TaskError as error:
        raise TaskError(f"{path}: {error}") from error


def manifest_tasks(path: Path) -> list[Task]:
    """Return the tasks of a manifest unchanged, even if they conflict. Errors as for `read_manifest`."""
    tasks: list[Task] = []
    for where, data in json_lines(path, "a task"):
        try:
            tasks.append(_hashed(Task.from_dict(data)))
        except UsageError as error:
            raise UsageError(f"{where}: not a task: {error}") from error
        except TaskError as error:
            raise TaskError(f"{where}: {error}") from error
        except UnicodeEncodeError as error:
            raise UsageError(f"{where}: not a task: its text contains a lone surrogate ({error.reason})") from error
    return tasks
