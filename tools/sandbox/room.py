"""An upper bound on the size of the answer to a request of the agent's protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SLACK_BYTES = 1 << 16
_LISTED_BYTES = 25_000
"""Maximum size of one entry of a listing: a path of 4,096 bytes, all of them escaped."""
_MOST_BYTES = 1 << 29


def max_answer_bytes(header: Mapping[str, Any]) -> int:
    """Return the maximum content bytes of a valid answer to a request."""
    total = _SLACK_BYTES
    limits = header.get("limits")
    if isinstance(limits, dict):
        total += 2 * _number(limits, "output_bytes") + _number(limits, "reply_bytes")
    # Besides file contents, archives contain names and sizes.
    total += 2 * _number(header, "max_bytes") + _LISTED_BYTES * _number(header, "max_entries")
    if "max_bytes" in header:
        total += 1 << 20
    return min(total, _MOST_BYTES)


def _number(numbers: Mapping[str, Any], name: str) -> int:
    value = numbers.get(name, 0)
    return min(int(value), _MOST_BYTES) if isinstance(value, int | float) and value > 0 else 0
