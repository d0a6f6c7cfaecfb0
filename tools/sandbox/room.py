"""How much memory the answer to a request of the agent's protocol may take, by what the request asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SLACK_BYTES = 1 << 16
_LISTED_BYTES = 25_000
"""The most that one entry of a listing takes: a path of 4,096 bytes, all of them written as escapes."""
_MOST_BYTES = 1 << 29


def most_in_answer(header: Mapping[str, Any]) -> int:
    """Return the most bytes of content in the answer to a request; more than that is no answer to it."""
    wanted = _SLACK_BYTES
    limits = header.get("limits")
    if isinstance(limits, dict):
        wanted += 2 * _number(limits, "output_bytes") + _number(limits, "reply_bytes")
    # Archives have names and sizes besides the contents of files.
    wanted += 2 * _number(header, "max_bytes") + _LISTED_BYTES * _number(header, "max_entries")
    if "max_bytes" in header:
        wanted += 1 << 20
    return min(wanted, _MOST_BYTES)


def _number(given: Mapping[str, Any], name: str) -> int:
    value = given.get(name, 0)
    return min(int(value), _MOST_BYTES) if isinstance(value, int | float) and value > 0 else 0
