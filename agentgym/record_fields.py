"""What the fields of recorded data may hold, checked when a file is read: a wrong one is named before anything uses it.

Written by hand for speed: the long lists of a trajectory are checked by C loops, and strings may hold lone surrogates,
which models produce.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from math import isfinite
from typing import Any

from agentgym.errors import UsageError

Check = Callable[[Any], bool]
Rules = Mapping[str, tuple[Check, str]]
"""Name of a field to what it must pass, and to what a person is told that it must be."""


def check_fields(data: Any, rules: Rules, required: frozenset[str], what: str) -> None:
    """Raise `UsageError` naming the first field of `data` that is missing, unknown or wrong.

    Args:
        data: What was read.
        rules: The fields there are.
        required: Those without a default.
        what: What `data` is, for the message.
    """
    if type(data) is not dict:
        raise UsageError(f"{what} is a JSON object, not {kind_of(data)}")
    if missing := sorted(required - data.keys()):
        raise UsageError(f"{what} needs the field {missing[0]!r}")
    for name, value in data.items():
        if name not in rules:
            raise UsageError(f"{what} has no field {name[:100]!r}; was it written by a newer release?")
        passes, told = rules[name]
        try:
            right = passes(value)
        except OverflowError:  # a whole number too great for a float
            right = False
        if not right:
            raise UsageError(f"field {name!r} of {what} must be {told}, not {shown(value)}")


def required_fields(kind: type) -> frozenset[str]:
    """Return the names of a dataclass's fields that have no default."""
    return frozenset(f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING)


def kind_of(value: Any) -> str:
    """Return what JSON calls a value's type."""
    names = {bool: "a boolean", str: "a string", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), "null" if value is None else type(value).__name__)


def shown(value: Any) -> str:
    """Return a value for a message: short ones as they are, others by their type."""
    text = repr(value) if type(value) in (str, int, float, bool, type(None)) else kind_of(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def is_text(value: Any) -> bool:
    """Whether this is a string."""
    return type(value) is str


def is_count(value: Any) -> bool:
    """Whether this is a whole number from 0."""
    return type(value) is int and value >= 0


def is_number(value: Any) -> bool:
    """Whether this is a finite number."""
    return type(value) in (int, float) and isfinite(value)


def is_object(value: Any) -> bool:
    """Whether this is a JSON object."""
    return type(value) is dict


def or_null(passes: Check) -> Check:
    """Return a check that lets `null` through as well."""
    return lambda value: value is None or passes(value)


def list_of(kind: type) -> Check:
    """Return a check for a list whose items have exactly this type."""
    only = {kind}
    return lambda value: type(value) is list and set(map(type, value)) <= only


def object_of(passes: Check) -> Check:
    """Return a check for an object whose values all pass."""
    return lambda value: type(value) is dict and all(map(passes, value.values()))


def is_counts(value: Any) -> bool:
    """Whether this is a list of whole numbers from 0."""
    return type(value) is list and set(map(type, value)) <= {int} and min(value, default=0) >= 0


def is_numbers(value: Any) -> bool:
    """Whether this is a list of finite numbers."""
    if type(value) is not list or not set(map(type, value)) <= {int, float}:
        return False
    # These lists are long, and a finite sum, which is quick to have, needs each of them to be finite.
    return isfinite(sum(value)) or all(map(isfinite, value))


def is_messages(value: Any) -> bool:
    """Whether this is a list of chat messages, each with a role and with text or content blocks."""
    return type(value) is list and all(map(_is_message, value))


def _is_message(value: Any) -> bool:
    if type(value) is not dict or type(value.get("role")) is not str:
        return False
    content = value.get("content")
    return type(content) is str or (type(content) is list and set(map(type, content)) <= {dict})
