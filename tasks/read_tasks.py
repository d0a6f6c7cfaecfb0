"""Makes tasks from the entries of files, with their splits; leaves out broken and repeated entries."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from agentgym.base.choices import one_of
from agentgym.base.errors import UsageError
from agentgym.core.task import SHARES, TEST, TRAIN, VALIDATION, Task, split_of
from agentgym.core.task_files import Quarantine, Why

SPLITS = (TRAIN, VALIDATION, TEST)
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


_WORDS = {
    "train": TRAIN,
    "training": TRAIN,
    "fewshot": TRAIN,
    "dev": VALIDATION,
    "validation": VALIDATION,
    "valid": VALIDATION,
    "val": VALIDATION,
    "test": TEST,
}
_RULES = ("auto", "file", "hash")


@dataclass(frozen=True)
class Splitter:
    """Assigns entries to splits.

    Args:
        rule: `"file"`: files named like train, dev and test are the splits; other files are train. `"hash"`: the
            content decides. Or the name of a split, for all entries.
    """

    rule: str

    @classmethod
    def of(cls, split_by: str, files: Iterable[Path]) -> Splitter:
        """Return the splitter for `split_by`; `"auto"` splits by file if a file is named like dev or test."""
        one_of("split_by", split_by, (*_RULES, *SPLITS))
        if split_by == "auto":
            names = {named_split(file) for file in files}
            split_by = "file" if names & {VALIDATION, TEST} else "hash"
        return cls(split_by)

    def split(self, file: Path, content: str) -> str:
        """Return the split of an entry."""
        if self.rule == "file":
            return named_split(file) or TRAIN
        return split_of(content, SHARES) if self.rule == "hash" else self.rule


def named_split(file: Path) -> str | None:
    """Return the split that the name of a file mentions, if any."""
    words = re.split(r"[^a-z]+", file.stem.lower())
    return next((_WORDS[word] for word in words if word in _WORDS), None)


def refuse_empty(files: Mapping[Path, int]) -> None:
    """Raise `UsageError` for a file without entries: an empty test file must not make other files the test split.

    Args:
        files: Number of entries of each file, including those left out.
    """
    for file, entries in files.items():
        if not entries:
            raise UsageError(f"{file}: the file holds no entry; remove it, or put the entries into it")
