"""Assigns entries of files to splits, by the name of the file or by the content of the entry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentgym.base.choices import one_of
from agentgym.base.errors import UsageError
from agentgym.core.task import SHARES, TEST, TRAIN, VALIDATION, split_of

SPLITS = (TRAIN, VALIDATION, TEST)
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
