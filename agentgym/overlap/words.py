"""The words of texts and the tokens of tasks, normalised in case, white space and encoding.

In scripts without spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese), each character is a word.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any

from agentgym.task import Task

_ASCII_WORD = re.compile(r"\w+", re.ASCII)
_ASCII_TOKEN = re.compile(r"\w+|[^\w\s]+", re.ASCII)
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\U00020000-\U0003ffff"
)
"""Scripts without spaces between words, as ranges of characters."""
_WIDE = re.compile("[\uff00-\uffef\u3000]+")
"""Full-width Latin letters and signs, and half-width Japanese ones."""
_OPTIONAL = "\u0591-\u05c7\u0640\u064b-\u065f\u0670\ufe00-\ufe0f"
"""Optional characters: Hebrew points, Arabic vowels and lengthening, variants of emojis."""


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return _patterns().word.findall(_normal(text))


def _tokens_of(text: str) -> list[str]:
    """Return the words of a text and the runs of punctuation between them."""
    if text.isascii():
        return _ASCII_TOKEN.findall(text.lower())
    return _patterns().token.findall(_normal(text))


def _normal(text: str) -> str:
    """Return a text normalised in case and encoding, without invisible characters."""
    narrow = _WIDE.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    return _patterns().unseen.sub("", unicodedata.normalize("NFC", narrow.casefold()))


class _Patterns:
    """Patterns for texts in any script. Python's `\\w` excludes the vowel signs of Indic scripts, for example."""

    def __init__(self) -> None:
        marks = _of_category("M")
        character = rf"(?:[{_UNSPACED}][{marks}]*|(?:(?![{_UNSPACED}])[\w{marks}])+)"
        self.word = re.compile(character)
        self.token = re.compile(rf"{character}|[^\w\s{marks}{_UNSPACED}]+")
        self.unseen = re.compile(rf"[{_OPTIONAL}{_of_category('Cf')}]")


@cache
def _patterns() -> _Patterns:
    return _Patterns()


def _of_category(category: str) -> str:
    """Return the characters of a Unicode category as ranges for a pattern."""
    codes = [code for code in range(128, sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith(category)]
    runs = [[code for _, code in run] for _, run in groupby(enumerate(codes), lambda pair: pair[1] - pair[0])]
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs)


def problem_tokens(task: Task) -> list[str]:
    """Return the words of a problem (prompt, data and gold) and the runs of punctuation between them.

    Punctuation counts because it is part of the meaning of code and queries. Runs of it stay together: as single tokens
    they would make any two mazes alike. The task's own id and split do not count.
    """
    texts = [task.prompt, *_leaves(task.data, (task.id, task.split)), *_leaves(task.gold, (task.id, task.split))]
    return [token for text in texts for token in _tokens_of(text)]


def ngrams(words: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    """Yield all runs of `size` words or tokens; a shorter text is one run."""
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
