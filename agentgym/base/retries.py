"""How long to wait before a retry: the delay that a server requests, or one that doubles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_MANY = 100
"""Maximum number of doublings, more than any wait needs; a float overflows after 1,023."""


def doubled_s(first_s: float, times: int, most_s: float) -> float:
    """Return `first_s` doubled `times` times, at most `most_s`."""
    return min(first_s * 2.0 ** min(times, _MANY), most_s)


def retry_after_s(headers: Mapping[str, str]) -> float:
    """Return the seconds in `Retry-After`, given as a number or a date; 0 if it is missing or invalid.

    A date is compared with the response's own `Date`, if present, because the clocks of two machines differ.

    Args:
        headers: The response's headers, as a case-insensitive mapping.
    """
    header = headers.get("retry-after", "")
    try:
        seconds = float(header)
    except ValueError:
        seconds = _until(header, headers.get("date", ""))
    return seconds if math.isfinite(seconds) and seconds > 0 else 0.0


def _until(date: str, server_date: str) -> float:
    then, now = _seconds_of(date), _seconds_of(server_date)
    if then is None:
        return 0.0
    return then - (datetime.now(UTC).timestamp() if now is None else now)


def _seconds_of(date: str) -> float | None:
    """Return the seconds since 1970 of an HTTP date; `None` if it is invalid."""
    try:
        moment = parsedate_to_datetime(date)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
