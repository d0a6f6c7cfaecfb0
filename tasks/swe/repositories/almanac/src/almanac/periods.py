"""Stretches of days."""

import re
from dataclasses import dataclass
from datetime import date, timedelta

from almanac.arithmetic import add_months, days_in_month, months_between
from almanac.errors import AlmanacError

_TEXT = re.compile(r"(\d{4})(?:-(\d{2})|-?Q([1-4])|-?W(\d{2}))?")


@dataclass(frozen=True)
class Period:
    """Days from `first` to `last`, both included."""

    first: date
    last: date

    def __post_init__(self):
        if self.last < self.first:
            raise AlmanacError(f"period ends before it begins: {self.first} to {self.last}")

    def __len__(self):
        return (self.last - self.first).days + 1

    def __contains__(self, day):
        return self.first <= day <= self.last

    def __iter__(self):
        return (self.first + timedelta(days=offset) for offset in range(len(self)))

    def overlap(self, other):
        """Return the common days as a period, or `None`."""
        first, last = max(self.first, other.first), min(self.last, other.last)
        return Period(first, last) if first <= last else None

    def split_months(self):
        """Return the parts of the period by month."""
        parts = []
        first = self.first
        while first <= self.last:
            end = first.replace(day=days_in_month(first.year, first.month))
            parts.append(Period(first, min(end, self.last)))
            first = end + timedelta(days=1)
        return parts


def parse_period(text):
    """Return the period of a text such as `2024`, `2024-02`, `2024Q3` or `2024-W05`. Raises `AlmanacError`."""
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise AlmanacError(f"not a period: {text!r}")
    year, month, quarter, week = found.groups()
    year = int(year)
    try:
        if week:
            first = date.fromisocalendar(year, int(week), 1)
            return Period(first, first + timedelta(days=6))
        start, months = 1, 12
        if month:
            start, months = int(month), 1
        elif quarter:
            start, months = 3 * int(quarter) - 2, 3
        first = date(year, start, 1)
        return Period(first, add_months(first, months) - timedelta(days=1))
    except ValueError as error:
        raise AlmanacError(f"not a period: {text!r} ({error})") from error


def age(born, day):
    """Return the age in whole years on a day. Raises `AlmanacError` before birth."""
    if day < born:
        raise AlmanacError(f"{day} is before {born}")
    return months_between(born, day) // 12
