"""Converts plain Python values to JSON trees and back, without loss: the data that a sandbox and the grader exchange.

`decode` returns only exact builtin and standard-library types, whatever was encoded: subclasses lose their overrides,
and everything else is `NotPlain`. Sent into sandboxes as text, so it needs only the standard library of Python 3.9.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

MAX_DEPTH = 60
MAX_ITEMS = 200_000
"""Most items to read from an iterator."""
_SAFE_INT = 2**53

_SEQUENCES: dict[str, Any] = {
    "l": list,
    "t": tuple,
    "q": deque,
    "s": set,
    "z": frozenset,
    "g": iter,
    "k": lambda items: dict.fromkeys(items).keys(),
    "v": lambda items: dict(enumerate(items)).values(),
}
_VIEWS = {type({}.keys()): "k", type({}.values()): "v"}


class NotPlain(ValueError):
    """A value that is not plain data; the message says why."""


def dumps(value: Any) -> str:
    """Return a value as the text of its tree: equal values of the same types have equal texts. Raises `NotPlain`."""
    return json.dumps(encode(value), separators=(",", ":"))


def loads(text: str) -> Any:
    """Return the value of a text that `dumps` wrote. Raises `NotPlain`."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotPlain(f"not the tree of a value: {type(error).__name__}") from None
    return decode(tree)


def encode(value: Any, depth: int = 0) -> Any:
    """Return the JSON tree of a value. Raises `NotPlain`."""
    if depth > MAX_DEPTH:
        raise NotPlain(f"a value nested more than {MAX_DEPTH} deep")
    kind = type(value)
    if value is None or kind is bool:
        return value
    # The methods of the base classes see the data itself; those of a subclass may return anything.
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, int):
        number = int.__index__(value)
        return number if -_SAFE_INT < number < _SAFE_INT else ["i", hex(number)]
    if issubclass(kind, float):
        return ["f", repr(float.__float__(value))]
    if issubclass(kind, complex):
        number = complex.__add__(value, 0j)
        return ["c", repr(number.real), repr(number.imag)]
    if issubclass(kind, bytes):
        return ["b", bytes.hex(value)]
    if issubclass(kind, bytearray):
        return ["a", bytearray.hex(value)]
    if issubclass(kind, Decimal):
        return ["m", Decimal.__str__(value)]
    if issubclass(kind, Fraction):
        return ["n", hex(int(value.numerator)), hex(int(value.denominator))]
    return _encode_items(value, kind, depth + 1)


def decode(tree: Any) -> Any:
    """Return the value of a tree. Raises `NotPlain` for anything that `encode` does not produce."""
    if isinstance(tree, (float, dict)):
        raise NotPlain("not the tree of a value")
    if not isinstance(tree, list):
        return tree
    try:
        return _decode_tagged(tree[0], tree[1:])
    except (TypeError, ValueError, IndexError, KeyError, ArithmeticError, RecursionError):
        raise NotPlain("not the tree of a value") from None


def _encode_items(value: Any, kind: type, depth: int) -> list[Any]:
    for tag, base in (("l", list), ("t", tuple), ("q", deque)):
        if issubclass(kind, base):
            return [tag, *(encode(item, depth) for item in base.__iter__(value))]
    for tag, base in (("s", set), ("z", frozenset)):
        if issubclass(kind, base):
            return [tag, *sorted((encode(item, depth) for item in base.__iter__(value)), key=json.dumps)]
    if issubclass(kind, dict):
        return ["d", *([encode(key, depth), encode(item, depth)] for key, item in dict.items(value))]
    if kind is range:
        return ["r", *(encode(part) for part in (value.start, value.stop, value.step))]
    if kind in _VIEWS:
        return [_VIEWS[kind], *(encode(item, depth) for item in value)]
    if kind is type({}.items()):
        return ["p", *([encode(key, depth), encode(item, depth)] for key, item in value)]
    if hasattr(kind, "__next__"):
        return ["g", *_taken(value, depth)]
    raise NotPlain(f"a value of type {kind.__name__}")


def _taken(iterator: Any, depth: int) -> Iterator[Any]:
    for count, item in enumerate(iterator):
        if count >= MAX_ITEMS:
            raise NotPlain(f"an iterator of more than {MAX_ITEMS} items")
        yield encode(item, depth)


def _decode_tagged(tag: str, parts: list[Any]) -> Any:
    if tag in _SEQUENCES:
        return _SEQUENCES[tag]([decode(part) for part in parts])
    if tag == "d" or tag == "p":
        entries = {decode(key): decode(item) for key, item in parts}
        return entries if tag == "d" else entries.items()
    if tag == "r":
        return range(*(decode(part) for part in parts))
    return _decode_scalar(tag, parts)


def _decode_scalar(tag: str, parts: list[Any]) -> Any:
    if tag == "f":
        return float(parts[0])
    if tag == "i":
        return int(parts[0], 16)
    if tag == "c":
        return complex(float(parts[0]), float(parts[1]))
    if tag == "b":
        return bytes.fromhex(parts[0])
    if tag == "a":
        return bytearray.fromhex(parts[0])
    if tag == "m" and not (number := Decimal(parts[0])).is_snan():
        return number
    if tag == "n":
        return Fraction(int(parts[0], 16), int(parts[1], 16))
    raise NotPlain("not the tree of a value")
