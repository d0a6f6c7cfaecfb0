"""Tasks made of the entries of files: each keeps its place, and broken and repeated ones are left out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from agentgym.core.task import Task
from agentgym.core.task_files import Quarantine, Why
from agentgym.tasks.splitting import SPLITS, named_split

_ORDER = {split: number for number, split in enumerate(SPLITS)}


class Placed(Protocol):
    """An entry of a file."""

    @property
    def where(self) -> str:
        """File and line, or number in the list, for messages."""
        ...

    @property
    def file(self) -> Path:
        """The file that holds the entry."""
        ...


E = TypeVar("E", bound=Placed)


@dataclass(frozen=True)
class ReadTask:
    """A task, and where it was read."""

    where: str
    task: Task
    file: Path


def read_tasks(
    entries: Iterable[E],
    make: Callable[[E], Task],
    quarantine: Quarantine,
    problem: Callable[[Task], Hashable] = lambda task: task.hash,
) -> list[ReadTask]:
    """Return the tasks of some entries, each problem once (see `without_repeats`).

    Args:
        entries: In the order of the files.
        make: Makes a task of an entry. Raises `Unusable` if it cannot.
        quarantine: Records which entries are left out, and why.
        problem: What two tasks have in common if they ask the same.
    """
    found: list[ReadTask] = []
    for entry in entries:
        with quarantine.guard(entry.where):
            task = make(entry)
            assert task.hash  # The guard leaves out text that cannot be hashed.
            found.append(ReadTask(entry.where, task, entry.file))
    return without_repeats(found, quarantine, problem)


def without_repeats(
    found: Sequence[ReadTask],
    quarantine: Quarantine,
    problem: Callable[[Task], Hashable] = lambda task: task.hash,
) -> list[ReadTask]:
    """Return tasks that neither ask the same nor have the same id, sorted by split.

    If tasks repeat each other, the one in a file that names its split is kept, since a data set may come both whole and
    divided. Otherwise the first one is kept.

    Args:
        found: In the order of the files.
        quarantine: Records which tasks are left out, and why.
        problem: What two tasks have in common if they ask the same.
    """
    places: dict[Hashable, str] = {}
    ids: dict[str, str] = {}
    kept: list[ReadTask] = []
    for read in sorted(found, key=lambda read: (named_split(read.file) is None, _order(read))):
        key = problem(read.task)
        if key in places:
            quarantine.add(read.where, f"it repeats {places[key]}", Why.REPEATED)
        elif read.task.id in ids:
            quarantine.add(read.where, f"its id {read.task.id!r} is that of {ids[read.task.id]}", Why.REPEATED)
        else:
            places[key] = ids[read.task.id] = read.where
            kept.append(read)
    return sorted(kept, key=_order)


def _order(read: ReadTask) -> int:
    return _ORDER.get(read.task.split, len(_ORDER))
