"""How long a server asks its clients to wait before they try again."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx


def asked_pause_s(answer: httpx.Response) -> float:
    """Return the seconds that `Retry-After` names, as a number or as a date; 0 if it names none that make sense."""
    said = answer.headers.get("retry-after", "")
    try:
        seconds = float(said)
    except ValueError:
        seconds = _until(said)
    return seconds if math.isfinite(seconds) and seconds > 0 else 0.0


def _until(date: str) -> float:
    try:
        then = parsedate_to_datetime(date)
    except ValueError:
        return 0.0
    return (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp() - datetime.now(UTC).timestamp()
