"""A strict reader for JSON that models write: every problem is reported with its position.

Duplicate keys, NaN, infinities, lone surrogates, NUL and deep nesting are refused, because they break tools downstream.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from agentgym.base.errors import ToolError

MAX_DEPTH = 64
"""Maximum depth of nesting."""

_UNUSABLE = re.compile("[\x00\ud800-\udfff]")
_UNUSABLE_OR_ESCAPED = re.compile(rf"{_UNUSABLE.pattern}|\\u")
_SPACE = re.compile(r"[ \t\r\n]*")


class JsonProblem(ToolError):
    """Text is not usable JSON. `cut` means that it looks truncated."""

    def __init__(self, message: str, *, cut: bool = False):
        super().__init__(message)
        self.cut = cut


def read_value(text: str, start: int = 0) -> tuple[Any, int]:
    """Read the JSON value that begins at `start`, after white space; return the value and its end position.

    Raises `JsonProblem` naming the problem and its position.
    """
    start = skip_space(text, start)
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise _located(text, start, error) from None
    except RecursionError:
        raise JsonProblem(f"the JSON is nested more than {MAX_DEPTH} deep.") from None
    except JsonProblem:
        raise
    except ValueError:
        raise JsonProblem("a number in the JSON has too many digits.") from None
    if _may_be_unusable(text, start, end):
        check_value(value)
    return value, end


def read_object(text: str) -> dict[str, Any]:
    """Read a text that is exactly one JSON object. Raises `JsonProblem`."""
    value, end = read_value(text)
    if (end := skip_space(text, end)) < len(text):
        raise JsonProblem(f"there is text after the JSON object: {excerpt(text, end)}.")
    if not isinstance(value, dict):
        raise JsonProblem(f"a JSON object {{...}} was expected, not {json_kind(value)}.")
    return value


def check_value(value: Any) -> None:
    """Raise `JsonProblem` for values that JSON or text cannot carry: NaN, lone surrogates, NUL, too deep nesting."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, str):
                check_text(item)
            elif isinstance(item, float) and not math.isfinite(item):
                raise JsonProblem("NaN and Infinity are not allowed; write a number or null.")
            elif isinstance(item, Mapping):
                deeper += item.keys()
                deeper += item.values()
            elif isinstance(item, list | tuple):
                deeper += item
        if not deeper:
            return
        level = deeper
    raise JsonProblem(f"the JSON is nested more than {MAX_DEPTH} deep.")


def check_text(text: str) -> None:
    """Raise `JsonProblem` if `text` holds a lone surrogate (undecodable bytes) or NUL."""
    if match := _UNUSABLE.search(text):
        raise JsonProblem(f"the character {match[0]!r} at {match.start() + 1} is not text; leave it out.")


def write(value: Any, *, compact: bool = False) -> str:
    """Write a value as JSON on one line. Raises `ValueError` if `read_value` would refuse it."""
    try:
        check_value(value)
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":") if compact else None)
    except (TypeError, ValueError) as error:
        raise ValueError(f"cannot be written as JSON: {error}") from None


def skip_space(text: str, start: int) -> int:
    """Return the position after the white space at `start`."""
    match = _SPACE.match(text, start)
    return match.end() if match else start


def excerpt(text: str, at: int, width: int = 24) -> str:
    """Return the text around a position, quoted."""
    cut = text[max(0, at - width) : at + width]
    return repr(("..." if at > width else "") + cut + ("..." if at + width < len(text) else ""))


def json_kind(value: Any) -> str:
    """Return the JSON name of a value's type."""
    names = {bool: "a boolean", str: "a string", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), "null" if value is None else type(value).__name__)


def _located(text: str, start: int, error: json.JSONDecodeError) -> JsonProblem:
    hint = " (inside a string, write a line break as \\n)" if error.msg.startswith("Invalid control") else ""
    where = f"character {error.pos - start + 1}, near {excerpt(text, error.pos)}"
    cut = error.msg.startswith("Unterminated") or error.pos >= len(text.rstrip())
    return JsonProblem(f"this is not valid JSON: {error.msg.removesuffix(' at')}{hint}, at {where}.", cut=cut)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen_keys: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen_keys or seen_keys.add(key))
        raise JsonProblem(f"the key {twice[:100]!r} appears twice in one JSON object.")
    return members


def _no_constant(name: str) -> Any:
    raise JsonProblem(f"{name} is not allowed in JSON; write a number or null.")


def _finite(digits: str) -> float:
    check_value(value := float(digits))
    return value


def _may_be_unusable(text: str, start: int, end: int) -> bool:
    """Whether the JSON might contain refused text or nesting: a cheap test, usually false."""
    if _UNUSABLE_OR_ESCAPED.search(text, start, end):
        return True
    return text.count("{", start, end) + text.count("[", start, end) > MAX_DEPTH


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
