"""Detects feedback that reveals the gold: a value, or a run of its words, that the episode has not mentioned."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

RUN = 5
"""Number of consecutive words that reveal a longer value, such as a query or a program."""

_WORD = re.compile(r"\w+(?:[.,]\d+)*")
_SHORT = 2
"""One-word values up to this length are compared case-sensitively: the choice `A` is not an article."""


def reveals(text: str, gold: Mapping[str, Any], context: str) -> bool:
    """Whether a text mentions a value of the gold that is not in `context`.

    Args:
        text: The feedback.
        gold: The gold of the task.
        context: The text of the episode since the opening. The opening itself does not count: it may list candidates,
            and feedback that picks the right one reveals it.
    """
    return any(_brings_up(text, context, words) for value in _values(gold) for words in _parts(value))


def _brings_up(text: str, context: str, words: list[str]) -> bool:
    fold = len(words) > 1 or any(len(word) > _SHORT for word in words)
    part = _folded(words) if fold else words
    text_words, context_words = (_folded(_words(source)) if fold else _words(source) for source in (text, context))
    return _has(text_words, part) and not _has(context_words, part)


def _values(gold: Any) -> Iterator[str]:
    """Yield the texts and numbers in the gold."""
    if isinstance(gold, Mapping):
        gold = list(gold.values())
    if isinstance(gold, list | tuple | set | frozenset):
        for item in gold:
            yield from _values(item)
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
    """Whether `part` occurs as a run in `words`."""
    if not part:
        return False
    starts = (at for at, word in enumerate(words) if word == part[0])
    return any(words[at : at + len(part)] == part for at in starts)
