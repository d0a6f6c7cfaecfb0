"""Decides whether a result equals the expected value: like Python's `==`, with a tolerance for fractions.

Fractional numbers are equal within `RELATIVE` or `ABSOLUTE`, wherever they occur: in lists, in sets, as keys of dicts.
An expected whole number must be matched exactly (3 equals 3.0 and, as in Python, True equals 1), and NaN equals NaN.
For answers written as text, lists equal tuples, and a truth value does not equal a number.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from agentgym.errors import BrokenTask, ToolError
from agentgym.syntax import parse

RELATIVE = 1e-6
ABSOLUTE = 1e-9
MAX_TEXT = 20_000
MAX_NESTING = 60
_MAX_PAIRS = 40_000
_WORDS = {"true": True, "false": False, "null": None}
"""Values as JSON writes them."""
_Number = int | float | complex | Decimal | Fraction


@dataclass(frozen=True)
class _Truth:
    """A truth value in a written answer; it does not equal any number."""

    value: bool


def read_literal(text: str, where: str) -> Any:
    """Return the value that a task states as a Python literal. Raises `BrokenTask` naming `where`."""
    try:
        return ast.literal_eval(parse(text.lstrip(" \t"), mode="eval"))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise BrokenTask(f"{where} is {text[:80]!r}, which is not a Python literal: {error}") from error


def answer_matches(answer: str, expected: Any) -> bool:
    """Whether an answer written as text equals `expected`. Raises `ToolError` if it is too long."""
    text = answer.strip()
    if len(text) > MAX_TEXT:
        raise ToolError(f"The answer has {len(text)} characters; submit the value itself, at most {MAX_TEXT}.")
    if isinstance(expected, str) and text == expected.strip():
        return True
    is_literal, value = _value_of(text)
    return is_literal and matches(_written(value), _written(expected))


def matches(value: Any, expected: Any) -> bool:
    """Whether a plain value equals the expected one.

    Args:
        value: The result, as `plain.decode` returns it: only exact builtin and library types.
        expected: The value that the task expects.
    """
    if isinstance(expected, _Number):
        return isinstance(value, _Number) and _same_number(value, expected)
    if isinstance(expected, list | tuple):
        alike = type(value) is type(expected) and len(value) == len(expected)
        return alike and all(matches(mine, theirs) for mine, theirs in zip(value, expected, strict=True))
    if isinstance(expected, set | frozenset):
        return isinstance(value, set | frozenset) and _same_set(value, expected)
    if isinstance(expected, dict):
        return isinstance(value, dict) and _same_dict(value, expected)
    return bool(value == expected)


def _same_number(value: Any, expected: Any) -> bool:
    if value == expected:
        return True
    if isinstance(expected, int):
        return False  # only fractional numbers are rounded
    try:
        if isinstance(value, complex) or isinstance(expected, complex):
            mine, theirs = complex(value), complex(expected)
            return _close(mine.real, theirs.real) and _close(mine.imag, theirs.imag)
        return _close(float(value), float(expected))
    except OverflowError:  # a whole number that no float can hold
        return False


def _close(value: float, expected: float) -> bool:
    if math.isnan(expected):
        return math.isnan(value)
    return math.isclose(value, expected, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def _same_set(value: Any, expected: Any) -> bool:
    rest = [item for item in value if item not in expected]
    missing = [item for item in expected if item not in value]
    return _pair_off(rest, missing, matches)


def _same_dict(value: dict[Any, Any], expected: dict[Any, Any]) -> bool:
    if not all(matches(value[key], item) for key, item in expected.items() if key in value):
        return False
    rest = [entry for entry in value.items() if entry[0] not in expected]
    missing = [entry for entry in expected.items() if entry[0] not in value]
    return _pair_off(rest, missing, matches)


def _pair_off(items: Sequence[Any], targets: Sequence[Any], same: Callable[[Any, Any], bool]) -> bool:
    """Whether items and `targets` pair off as the same: a perfect bipartite matching, by augmenting paths."""
    if len(items) != len(targets) or len(items) * len(targets) > _MAX_PAIRS:
        return False
    fitting = [[place for place, theirs in enumerate(targets) if same(mine, theirs)] for mine in items]
    owner: dict[int, int] = {}

    def find_place(number: int, visited: set[int]) -> bool:
        for place in fitting[number]:
            if place not in visited:
                visited.add(place)
                if place not in owner or find_place(owner[place], visited):
                    owner[place] = number
                    return True
        return False

    return all(find_place(number, set()) for number in range(len(items)))


def _written(value: Any) -> Any:
    """Return a value with lists replaced by tuples and truth values by `_Truth`."""
    if isinstance(value, bool):
        return _Truth(value)
    if isinstance(value, list | tuple):
        return tuple(map(_written, value))
    if isinstance(value, set | frozenset):
        return frozenset(map(_written, value))
    if isinstance(value, dict):
        return {_written(key): _written(item) for key, item in value.items()}
    return value


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
        return True, ast.literal_eval(parse(text.lstrip(" \t"), mode="eval"))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False, None
