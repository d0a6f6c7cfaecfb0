"""When an answer equals the expected value: Python's own equality, made a little stricter and a little kinder.

Booleans equal only booleans. Whole numbers equal numbers of exactly that value (3 and 3.0); fractional ones are equal
within `RELATIVE` or `ABSOLUTE`, and NaN equals NaN. Lists equal lists and tuples tuples, item by item; sets and keys of
dicts need no order. In an answer that was written as text, lists and tuples are the same, and text needs no quotes.
"""

from __future__ import annotations

import ast
import math
from typing import Any

from agentgym.errors import TaskError, ToolError

RELATIVE = 1e-6
ABSOLUTE = 1e-9
MAX_TEXT = 20_000
MAX_NESTING = 60
_MAX_PAIRS = 250_000
_WORDS = {"true": True, "false": False, "null": None}
"""Values as JSON writes them."""


def read_literal(text: str, where: str) -> Any:
    """Return the value that a task states as a Python literal. Raises `TaskError` naming `where`."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise TaskError(f"{where} is {text[:80]!r}, which is no Python literal: {error}") from error


def answer_matches(answer: str, expected: Any) -> bool:
    """Whether an answer that was written as text is `expected`. Raises `ToolError` for one that is far too long."""
    text = answer.strip()
    if len(text) > MAX_TEXT:
        raise ToolError(f"The answer has {len(text)} characters; submit the value itself, at most {MAX_TEXT}.")
    if isinstance(expected, str) and text == expected.strip():
        return True
    found, value = _value_of(text)
    return found and matches(value, expected, written=True)


def matches(value: Any, expected: Any, *, written: bool = False) -> bool:
    """Whether a plain value equals the expected one.

    Args:
        value: What came out; only exact builtin types.
        expected: What should have.
        written: Lists and tuples are the same.
    """
    if isinstance(expected, bool) or isinstance(value, bool):
        return value is expected
    if isinstance(expected, int | float | complex):
        return isinstance(value, int | float | complex) and _same_number(value, expected)
    if isinstance(expected, list | tuple):
        alike = isinstance(value, list | tuple) and (written or type(value) is type(expected))
        return alike and len(value) == len(expected) and all(_pairs(value, expected, written))
    if isinstance(expected, set | frozenset):
        return isinstance(value, set | frozenset) and _same_set(value, expected, written)
    if isinstance(expected, dict):
        return isinstance(value, dict) and _same_dict(value, expected, written)
    return type(value) is type(expected) and value == expected


def _pairs(value: Any, expected: Any, written: bool) -> Any:
    return (matches(mine, theirs, written=written) for mine, theirs in zip(value, expected, strict=True))


def _same_number(value: Any, expected: Any) -> bool:
    if value == expected:
        return True
    if isinstance(expected, int) or isinstance(value, int):
        # A float is meant to be a whole number or not; only sums of fractions come out a little different.
        return isinstance(expected, float) and math.isfinite(expected) and _close(value, expected)
    if isinstance(expected, complex) or isinstance(value, complex):
        return _close(complex(value).real, complex(expected).real) and _close(
            complex(value).imag, complex(expected).imag
        )
    return _close(value, expected)


def _close(value: float, expected: float) -> bool:
    if math.isnan(expected):
        return math.isnan(value)
    try:
        return math.isclose(value, expected, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    except OverflowError:  # a whole number that no float can hold
        return False


def _same_set(value: Any, expected: Any, written: bool) -> bool:
    if len(value) != len(expected):
        return False
    rest = [item for item in value if item not in expected or isinstance(item, bool | int | float)]
    wanted = [item for item in expected if item not in value or isinstance(item, bool | int | float)]
    if len(rest) * len(wanted) > _MAX_PAIRS:
        return value == expected
    for item in wanted:
        found = next((i for i, mine in enumerate(rest) if matches(mine, item, written=written)), None)
        if found is None:
            return False
        del rest[found]
    return not rest


def _same_dict(value: Any, expected: Any, written: bool) -> bool:
    return (
        len(value) == len(expected)
        and _same_set(set(value), set(expected), written)
        and all(matches(value[key], item, written=written) for key, item in expected.items() if key in value)
        and all(key in value for key in expected if not isinstance(key, float))
    )


def _value_of(text: str) -> tuple[bool, Any]:
    if text in _WORDS:
        return True, _WORDS[text]
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    if deepest > MAX_NESTING:
        return False, None
    try:
        return True, ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False, None
