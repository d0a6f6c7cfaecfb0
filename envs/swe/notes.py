"""Reads which values a process compared with withheld ones, and checks them against the withheld values.

The notes come from the process that runs the code under test. They prove only that it produced the right values without
seeing them.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from agentgym.base.syntax import parse
from agentgym.envs.swe.stand_in import MAX_DEPTH, MAX_MESSAGE, MAX_NOTES

MAX_CLASSES = 10
"""Limit on the classes of an exception: an exception of every class would match anything."""


@dataclass(frozen=True)
class ComparisonNote:
    """A value that was compared with a withheld one."""

    number: int
    """The place in the function."""
    value: object = None
    plain: bool = True
    """Whether the value is plain data; other values are not kept."""

    def equals(self, expected: object) -> bool:
        """Whether the noted value equals another by `==`, as in the test."""
        try:
            return self.plain and bool(self.value == expected)
        except (ArithmeticError, TypeError, RecursionError):  # such as a signaling NaN of `Decimal`
            return False


@dataclass(frozen=True)
class Raised:
    """An expected exception: equal to the notes of exceptions that match it."""

    name: str
    """The name of its class."""
    match: str | None = None
    """A pattern to search for in its text."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list) or len(other) != 2:
            return NotImplemented
        names, text = other
        plausible = self.name in names and len(names) <= MAX_CLASSES and len(text) <= MAX_MESSAGE
        return plausible and (self.match is None or re.search(self.match, text) is not None)

    __hash__ = None  # type: ignore[assignment]


def value_of(text: str) -> object:
    """Return the value of an expression of constants, containers and well-known types of the standard library.

    Raises:
        ValueError: It is not such an expression.
    """
    try:
        return _value(parse(text, mode="eval").body)
    except (TypeError, SyntaxError, ArithmeticError, LookupError, MemoryError, RecursionError) as error:
        raise ValueError(f"not a plain value: {text[:80]}") from error


def _value(node: ast.expr | None) -> Any:
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        kind = {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]
        return kind(map(_value, node.elts))
    if isinstance(node, ast.Dict):
        return {_value(key): _value(value) for key, value in zip(node.keys, node.values, strict=True)}
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        keywords = {keyword.arg or "": _value(keyword.value) for keyword in node.keywords}
        return _BUILT[name](*map(_value, node.args), **keywords)
    if node is None:  # an unpacked dictionary
        raise ValueError("not a plain value")
    return ast.literal_eval(node)


_BUILT: Mapping[str, Callable[..., object]] = {
    kind.__name__: kind
    for kind in (Fraction, Decimal, date, datetime, time, timedelta, set, frozenset, tuple, list, dict)
}


def read_notes(text: str) -> tuple[ComparisonNote, ...]:
    """Read the notes of a test. Raises `ValueError` if they are malformed."""
    try:
        entries = json.loads(text) if text else []
        return tuple(_note(int(number), data) for number, data in entries[:MAX_NOTES])
    except (TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"malformed notes: {error}") from error


def as_expected(notes: Iterable[ComparisonNote], expected: Mapping[int, object], counts: Mapping[int, int]) -> bool:
    """Whether all notes equal the expected values.

    Args:
        notes: The notes.
        expected: Expected values by the number of their place.
        counts: Least number of notes of each place.
    """
    noted: Counter[int] = Counter()
    for note in notes:
        if note.number not in expected or not note.equals(expected[note.number]):
            return False
        noted[note.number] += 1
    return all(noted[number] >= count for number, count in counts.items())


def _note(number: int, data: object) -> ComparisonNote:
    return ComparisonNote(number, plain=False) if data is None else ComparisonNote(number, _read(data, MAX_DEPTH))


def _read(data: Any, depth: int) -> object:
    kind, content = data
    if depth < 0:
        raise ValueError("too deep")
    if kind in _SINGLE:
        return _SINGLE[kind](content)
    return _MANY[kind](_read(part, depth - 1) for part in content)


def _complex(text: str) -> complex:
    real, imaginary = text.split()
    return complex(float.fromhex(real), float.fromhex(imaginary))


def _fraction(text: str) -> Fraction:
    above, below = text.split()
    return Fraction(int(above, 16), int(below, 16))


def _is(content: object) -> bool | None:
    return content if isinstance(content, bool) else None


_SINGLE: Mapping[str, Callable[[Any], object]] = {
    "is": _is,
    "int": lambda text: int(text, 16),
    "float": float.fromhex,
    "complex": _complex,
    "str": str,
    "bytes": bytes.fromhex,
    "bytearray": bytes.fromhex,
    "Decimal": Decimal,
    "Fraction": _fraction,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda text: timedelta(*map(int, text.split())),
}
_MANY: Mapping[str, Callable[[Iterable[Any]], object]] = {"list": list, "tuple": tuple, "set": set, "dict": dict}
