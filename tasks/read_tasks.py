"""Makes tasks from the entries of files; leaves out broken and repeated entries."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from agentgym.core.task import Task
from agentgym.core.task_files import Quarantine, Why
from agentgym.tasks.splitting import SPLITS, named_split

_ORDER = {split: number for number, split in enumerate(SPLITS)}


class FileEntry(Protocol):
    """An entry of a file."""

    @property
    def where(self) -> str:
        """File and line (or number in the list), for messages."""
        ...

    @property
    def file(self) -> Path:
        """The file that holds the entry."""
        ...


E = TypeVar("E", bound=FileEntry)


@dataclass(frozen=True)
class ReadTask:
    """A task with the file and position it was read from."""

    where: str
    task: Task
    file: Path


def read_tasks(
    entries: Iterable[E],
    make: Callable[[E], Task],
    quarantine: Quarantine,
    problem: Callable[[Task], Hashable] = lambda task: task.hash,
) -> list[ReadTask]:
    """Return the tasks of the entries, without repeated problems (see `without_repeats`).

    Args:
        entries: The entries, in the order of the files.
        make: Makes a task from an entry, or raises `Unusable`.
        quarantine: Records which entries are left out, and why.
        problem: Returns a key that is equal for tasks that pose the same problem.
    """
    tasks: list[ReadTask] = []
    for entry in entries:
        with quarantine.guard(entry.where):
            task = make(entry)
            assert task.hash  # Inside the guard: text that cannot be hashed makes the entry unusable.
            tasks.append(ReadTask(entry.where, task, entry.file))
    return without_repeats(tasks, quarantine, problem)


def without_repeats(
    tasks: Sequence[ReadTask],
    quarantine: Quarantine,
    problem: Callable[[Task], Hashable] = lambda task: task.hash,
) -> list[ReadTask]:
    """Return tasks with distinct problems and ids, sorted by split.

    Of repeated tasks, one from a file that names its split wins, since a data set may come both whole and divided;
    otherwise the first one wins.

    Args:
        tasks: The tasks, in the order of the files.
        quarantine: Records which tasks are left out, and why.
        problem: Returns a key that is equal for tasks that pose the same problem.
    """
    places: dict[Hashable, str] = {}
    ids: dict[str, str] = {}
    unique: list[ReadTask] = []
    for read in sorted(tasks, key=lambda read: (named_split(read.file) is None, _order(read))):
        key = problem(read.task)
        if key in places:
            quarantine.add(read.where, f"it repeats {places[key]}", Why.REPEATED)
        elif read.task.id in ids:
            quarantine.add(read.where, f"its id {read.task.id!r} is that of {ids[read.task.id]}", Why.REPEATED)
        else:
            places[key] = ids[read.task.id] = read.where
            unique.append(read)
    return sorted(unique, key=_order)


def _order(read: ReadTask) -> int:
    return _ORDER.get(read.task.split, len(_ORDER))
