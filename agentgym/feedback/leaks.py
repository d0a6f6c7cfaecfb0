"""Whether feedback reveals the gold: its values, or a run of words of them, that the episode has not brought up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

RUN = 5
"""So many words in a row of a longer value, such as a query or a program, reveal it."""

_WORD = re.compile(r"\w+(?:[.,]\d+)*")
_SHORT = 2
"""A value of one word with at most so many letters is compared with its case: the choice `A` is no article."""


def reveals(text: str, gold: Mapping[str, Any], known: str) -> bool:
    """Whether a text names a value of the gold that is not in `known`.

    Args:
        text: The feedback.
        gold: The gold of the task.
        known: What the policy has said and was shown since the opening. What the opening says is not known: among
            names in a prompt, saying which one is right would reveal it.
    """
    return any(_brings_up(text, known, words) for value in _values(gold) for words in _parts(value))


def _brings_up(text: str, known: str, words: list[str]) -> bool:
    fold = len(words) > 1 or any(len(word) > _SHORT for word in words)
    wanted = _folded(words) if fold else words
    said, before = (_folded(_words(one)) if fold else _words(one) for one in (text, known))
    return _has(said, wanted) and not _has(before, wanted)


def _values(gold: Any) -> Iterator[str]:
    """Yield the texts and numbers in the gold."""
    if isinstance(gold, Mapping):
        gold = list(gold.values())
    if isinstance(gold, list | tuple | set | frozenset):
        for one in gold:
            yield from _values(one)
    elif isinstance(gold, str | int | float) and not isinstance(gold, bool):
        yield f"{gold:g}" if isinstance(gold, float) else str(gold)


def _parts(value: str) -> Iterator[list[str]]:
    words = _words(value)
    if len(words) <= RUN:
        yield words
    else:
        yield from (words[at : at + RUN] for at in range(len(words) - RUN + 1))


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _folded(words: list[str]) -> list[str]:
    return [word.casefold() for word in words]


def _has(words: list[str], part: list[str]) -> bool:
    """Whether a run of words occurs in others."""
    if not part:
        return False
    starts = (at for at, word in enumerate(words) if word == part[0])
    return any(words[at : at + len(part)] == part for at in starts)
