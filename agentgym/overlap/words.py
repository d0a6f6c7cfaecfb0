"""The words of texts and the tokens of tasks, normalised so that case and white space do not matter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentgym.task import Task

_WORD = re.compile(r"\w+")
_TOKEN = re.compile(r"\w+|[^\w\s]")


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation."""
    return _WORD.findall(text.casefold())


def problem_tokens(task: Task) -> list[str]:
    """Return the words and other signs of a whole problem, one by one: prompt, data and gold.

    Signs count, because they decide what code and queries mean. The task's own id and split do not.
    """
    texts = [task.prompt, *_leaves(task.data, (task.id, task.split)), *_leaves(task.gold, (task.id, task.split))]
    return [token for text in texts for token in _TOKEN.findall(text.casefold())]


def ngrams(words: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    """Yield the runs of `size` words or tokens; a shorter text is one run."""
    if words:
        for start in range(max(1, len(words) - size + 1)):
            yield tuple(words[start : start + size])


def _leaves(value: Any, no_content: tuple[str, ...]) -> Iterator[str]:
    """Yield the keys and values of plain data as texts, in order of the keys."""
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield str(key)
            yield from _leaves(value[key], no_content)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item, no_content)
    elif value not in no_content:
        yield str(value)
