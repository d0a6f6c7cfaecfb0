"""Validates the fields of recorded data when a file is read, so that a wrong field is reported before it is used.

Written by hand for speed: C loops check the long lists of a trajectory. Strings may hold lone surrogates, since
models produce them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from math import isfinite
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.base.strict_json import json_kind

Check = Callable[[Any], bool]
Rules = Mapping[str, tuple[Check, str]]
"""Maps a field's name to its check and to a description of valid values for the error message."""


def check_fields(data: Any, rules: Rules, required: frozenset[str], what: str) -> None:
    """Raise `UsageError` naming the first field of `data` that is missing, unknown or wrong.

    Args:
        data: The data that was read.
        rules: The known fields.
        required: The fields without a default.
        what: A name for `data` in the message.
    """
    if type(data) is not dict:
        raise UsageError(f"{what} is a JSON object, not {json_kind(data)}")
    if missing := sorted(required - data.keys()):
        raise UsageError(f"{what} needs the field {missing[0]!r}")
    for name, value in data.items():
        if name not in rules:
            raise UsageError(f"{what} has no field {name[:100]!r}; was it written by a newer release?")
        passes, expected = rules[name]
        try:
            right = passes(value)
        except OverflowError:  # an integer too large for a float
            right = False
        if not right:
            raise UsageError(f"field {name!r} of {what} must be {expected}, not {excerpt_of(value)}")


def required_fields(kind: type) -> frozenset[str]:
    """Return the names of a dataclass's fields that have no default."""
    return frozenset(f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING)


def excerpt_of(value: Any) -> str:
    """Return a value for a message: scalars as they are (cut if long), others by their type."""
    text = repr(value) if type(value) in (str, int, float, bool, type(None)) else json_kind(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def is_text(value: Any) -> bool:
    """Whether this is a string."""
    return type(value) is str


def is_count(value: Any) -> bool:
    """Whether this is a non-negative integer."""
    return type(value) is int and value >= 0


def is_number(value: Any) -> bool:
    """Whether this is a finite number."""
    return type(value) in (int, float) and isfinite(value)


def is_object(value: Any) -> bool:
    """Whether this is a JSON object."""
    return type(value) is dict


def or_null(passes: Check) -> Check:
    """Return a check that also accepts `null`."""
    return lambda value: value is None or passes(value)


def list_of(kind: type) -> Check:
    """Return a check for a list whose items have exactly this type."""
    only = {kind}
    return lambda value: type(value) is list and set(map(type, value)) <= only


def object_of(passes: Check) -> Check:
    """Return a check for an object whose values all pass."""
    return lambda value: type(value) is dict and all(map(passes, value.values()))


def is_counts(value: Any) -> bool:
    """Whether this is a list of non-negative integers."""
    return type(value) is list and set(map(type, value)) <= {int} and min(value, default=0) >= 0


def is_numbers(value: Any) -> bool:
    """Whether this is a list of finite numbers."""
    if type(value) is not list or not set(map(type, value)) <= {int, float}:
        return False
    # These lists are long. A sum is fast, and it is finite only if every item is.
    return isfinite(sum(value)) or all(map(isfinite, value))


def is_messages(value: Any) -> bool:
    """Whether this is a list of chat messages, each with a role and either text or content blocks."""
    return type(value) is list and all(map(_is_message, value))


def _is_message(value: Any) -> bool:
    if type(value) is not dict or type(value.get("role")) is not str:
        return False
    content = value.get("content")
    return type(content) is str or (type(content) is list and set(map(type, content)) <= {dict})
