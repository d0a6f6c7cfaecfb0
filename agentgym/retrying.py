"""Reads the delay that a server requests before a retry."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_s(headers: Mapping[str, str]) -> float:
    """Return the seconds in `Retry-After`, given as a number or a date; 0 if it is missing or invalid.

    Args:
        headers: The answer's headers, as an HTTP client returns them: their names are compared without case.
    """
    header = headers.get("retry-after", "")
    try:
        seconds = float(header)
    except ValueError:
        seconds = _until(header)
    return seconds if math.isfinite(seconds) and seconds > 0 else 0.0


def _until(date: str) -> float:
    try:
        then = parsedate_to_datetime(date)
    except ValueError:
        return 0.0
    return (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp() - datetime.now(UTC).timestamp()
