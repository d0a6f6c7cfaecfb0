"""How long to wait before a retry: the delay that a server requests, or one that doubles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_MANY = 100
"""More doublings than any wait needs; after 1,023 of them, there is no such float."""


def doubled_s(first_s: float, times: int, most_s: float) -> float:
    """Return a wait that has doubled so many times, at most `most_s`: however long something is down."""
    return min(first_s * 2.0 ** min(times, _MANY), most_s)


def retry_after_s(headers: Mapping[str, str]) -> float:
    """Return the seconds in `Retry-After`, given as a number or a date; 0 if it is missing or invalid.

    A date is compared with that of the answer itself, if it has one: the clocks of two machines differ.

    Args:
        headers: The answer's headers, as an HTTP client returns them: their names are compared without case.
    """
    header = headers.get("retry-after", "")
    try:
        seconds = float(header)
    except ValueError:
        seconds = _until(header, headers.get("date", ""))
    return seconds if math.isfinite(seconds) and seconds > 0 else 0.0


def _until(date: str, told: str) -> float:
    then, now = _seconds_of(date), _seconds_of(told)
    if then is None:
        return 0.0
    return then - (datetime.now(UTC).timestamp() if now is None else now)


def _seconds_of(date: str) -> float | None:
    """Return the seconds since 1970 of an HTTP date; `None` if it is none."""
    try:
        moment = parsedate_to_datetime(date)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
