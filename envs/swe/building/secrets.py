"""Facts that an issue must not reveal."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

MIN_REVEALING = 8
"""Shorter lines of a fix (`else:`, `break`) reveal nothing and may appear by chance."""


@dataclass(frozen=True)
class IssueSecrets:
    """Facts that a text must not reveal."""

    gold_lines: Collection[str]
    """Lines that the fix adds or removes."""
    functions: Collection[str]
    """Names of the functions that have the bugs."""
    paths: Collection[str]
    """Their files."""


def reveals_secret(text: str, secrets: IssueSecrets, allowed: str = "") -> bool:
    """Whether a text reveals a secret.

    Args:
        text: The text.
        secrets: Facts that it must not reveal.
        allowed: Code of a user; function names in it may be used.
    """
    lines = {line.strip() for line in secrets.gold_lines}
    if any(len(line) >= MIN_REVEALING and line in text for line in lines):
        return True
    user_words = set(re.findall(r"\w+", allowed))
    names = {function.rpartition(".")[2] for function in secrets.functions} - user_words
    if any(name and re.search(rf"\b{re.escape(name)}\b", text) for name in names):
        return True
    files = {path.rpartition("/")[2] for path in secrets.paths} - {"__init__.py"}
    return any(file in text for file in files)
