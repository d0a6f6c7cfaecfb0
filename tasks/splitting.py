"""Which split an entry of a file is in, and the tasks of a source without those that repeat another one."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym.choices import one_of
from agentgym.errors import UsageError
from agentgym.left_out import Quarantine, Why
from agentgym.task import TEST, TRAIN, VALIDATION, Task, split_of

SPLITS = (TRAIN, VALIDATION, TEST)
SHARES: Mapping[str, float] = {TRAIN: 0.8, VALIDATION: 0.1, TEST: 0.1}
"""Shares of the splits when they are made by hash."""
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
    """Puts entries into splits.

    Args:
        rule: `"file"`: files named like train, dev and test are the splits, others count as train. `"hash"`: the
            content decides. Or the one split that all entries are in.
    """

    rule: str

    @classmethod
    def of(cls, split_by: str, files: Iterable[Path]) -> Splitter:
        """Return the splitter for a choice of the user; `"auto"` is by file if a file's name says dev or test."""
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
    """Return the split that the name of a file speaks of, if it does."""
    words = re.split(r"[^a-z]+", file.stem.lower())
    return next((_WORDS[word] for word in words if word in _WORDS), None)


def refuse_empty(files: Mapping[Path, int]) -> None:
    """Raise `UsageError` for a file without entries: what it was meant to be must not come from elsewhere.

    Args:
        files: How many entries each file holds, those that were left out included.
    """
    for file, entries in files.items():
        if not entries:
            raise UsageError(f"{file}: the file holds no entry; remove it, or put the entries into it")


@dataclass(frozen=True)
class Draft:
    """A task, and where it was read."""

    where: str
    task: Task
    file: Path = Path()


def first_of_each(
    drafts: Sequence[Draft], quarantine: Quarantine, problem: Callable[[Task], Hashable] = lambda task: task.hash
) -> list[Draft]:
    """Return the drafts of which no problem and no id was there before; the others are left out.

    Of two that repeat each other the one in a file that names its split is kept: a data set may come whole and divided.

    Args:
        drafts: In the order of the files.
        quarantine: Is told what is left out.
        problem: What is the same for two tasks that ask the same.
    """
    order = sorted(drafts, key=lambda draft: (named_split(draft.file) is None, SPLITS_ORDER.get(draft.task.split, 9)))
    problems: dict[Hashable, str] = {}
    ids: dict[str, str] = {}
    kept: list[Draft] = []
    for draft in order:
        key = problem(draft.task)
        if key in problems:
            quarantine.add(draft.where, f"it repeats {problems[key]}", Why.REPEATED)
        elif draft.task.id in ids:
            quarantine.add(draft.where, f"its id {draft.task.id!r} is that of {ids[draft.task.id]}", Why.REPEATED)
        else:
            problems[key] = ids[draft.task.id] = draft.where
            kept.append(draft)
    return sorted(kept, key=lambda draft: SPLITS_ORDER.get(draft.task.split, 9))


SPLITS_ORDER = {split: number for number, split in enumerate(SPLITS)}
