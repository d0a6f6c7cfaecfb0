"""Reads dates as people write them: ISO, with the name of the month, and numeric where only one reading is valid."""

from __future__ import annotations

import datetime
import re
from typing import NamedTuple

from agentgym.core.answers.texts import fold


class Day(NamedTuple):
    """A date; `None` for a part that is not stated."""

    year: int | None
    month: int
    day: int | None
    time: datetime.time | None = None
    """Time of day; `None` at midnight."""


_NAMES = "january february march april may june july august september october november december"
_MONTHS = {
    name[:length]: number for number, name in enumerate(_NAMES.split(), start=1) for length in (3, len(name))
} | {"sept": 9}
_MONTH = f"({'|'.join(sorted(_MONTHS, key=len, reverse=True))})\\.?"
_WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\.?,?\s+)?"
_DAY, _YEAR, _GAP = r"(\d{1,2})(?:st|nd|rd|th)?", r"(\d{3,4})", r"(?:\s*,\s*|\s+|-)"
_FORMS = (
    (re.compile(rf"{_YEAR}([-/.])(\d{{1,2}})\2(\d{{1,2}})"), (1, 3, 4)),
    (re.compile(rf"(?:the\s+)?{_DAY}(?:\s+of\s+|{_GAP}){_MONTH}(?:\s+of\s+|{_GAP}){_YEAR}"), (3, 2, 1)),
    (re.compile(rf"{_MONTH}{_GAP}(?:the\s+)?{_DAY}{_GAP}{_YEAR}"), (3, 1, 2)),
    (re.compile(rf"{_YEAR}{_GAP}{_MONTH}{_GAP}{_DAY}"), (1, 2, 3)),
    (re.compile(rf"{_MONTH}(?:\s+of\s+|{_GAP}){_YEAR}"), (2, 1, None)),
    (re.compile(rf"(?:the\s+)?{_DAY}(?:\s+of\s+|{_GAP}){_MONTH}"), (None, 2, 1)),
    (re.compile(rf"{_MONTH}{_GAP}(?:the\s+)?{_DAY}"), (None, 1, 2)),
)
"""Patterns, each with the groups of year, month and day."""
_NUMERIC = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})")
_CLOCK = re.compile(r"(?:\s|(?<=\d)t)(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6})\d*)?)?\s*([ap]\.?m\.?)?$")
_MAX_CHARS = 60


def read_date(text: str) -> Day | None:
    """Return the date that the whole text states, or `None`.

    At least the month and one other part must be stated. `4/5/2020` has two readings and is not a date; `13/5/2020` is.
    """
    if len(text) > _MAX_CHARS:
        return None
    words = " ".join(fold(text).casefold().split()).rstrip(".")
    words = re.sub(r"\s+(?:ad|a\.d\.|ce)$", "", re.sub(rf"^(?:on\s+)?{_WEEKDAY}", "", words, count=1))
    clock = _CLOCK.search(words)
    date = _date(words[: clock.start()].rstrip(" ,") if clock else words)
    if date is None or clock is None:
        return date
    try:
        return date._replace(time=_time(*clock.groups()) or None)
    except ValueError:
        return None


def _date(words: str) -> Day | None:
    for pattern, groups in _FORMS:
        if stated := pattern.fullmatch(words):
            year, month, day = (stated[group] if group else None for group in groups)
            return _valid(year, _MONTHS.get(str(month)) or str(month), day)
    if stated := _NUMERIC.fullmatch(words):
        first, second, year = stated.group(1, 3, 4)
        readings = {_valid(year, second, first), _valid(year, first, second)} - {None}
        return readings.pop() if len(readings) == 1 else None
    return None


def _valid(year: str | None, month: str | int, day: str | None) -> Day | None:
    stated = Day(None if year is None else int(year), int(month), None if day is None else int(day))
    try:
        datetime.date(2000 if year is None else int(year), stated.month, 1 if day is None else int(day))
    except ValueError:
        return None
    return stated


def _time(hour: str, minute: str, second: str | None, fraction: str | None, half: str | None) -> datetime.time | None:
    """Return a time of day, or `None` for midnight. Raises `ValueError` for an impossible one."""
    hours = int(hour)
    if half is not None:
        if not 1 <= hours <= 12:
            raise ValueError(f"no such hour: {hours}")
        hours = hours % 12 + (12 if half.startswith("p") else 0)
    time = datetime.time(hours, int(minute), int(second or 0), int((fraction or "0").ljust(6, "0")))
    return None if time == datetime.time.min else time
