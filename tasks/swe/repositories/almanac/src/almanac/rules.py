"""Recurrence rules."""

import heapq
from datetime import date, timedelta
from itertools import islice, takewhile

from almanac.arithmetic import add_months, days_in_month, start_of_week
from almanac.errors import RuleError

FREQUENCIES = ("daily", "weekly", "monthly", "yearly")


class Rule:
    """Days that come again and again.

    Args:
        frequency: `daily`, `weekly`, `monthly` or `yearly`.
        start: No day is before it.
        every: Only each so many days, weeks, months or years.
        count: At most so many days.
        until: No day is after it.
        weekdays: Weekly: which days of the week (Monday is 0); the weekday of `start` if not given.
        days: Monthly: which days of the month, from the end if negative; the day of `start` if not given.
        skip: Days that are left out; they count all the same.
    """

    def __init__(self, frequency, start, *, every=1, count=None, until=None, weekdays=None, days=None, skip=()):
        if frequency not in FREQUENCIES:
            raise RuleError(f"unknown frequency {frequency!r}; there are: {', '.join(FREQUENCIES)}")
        if every < 1:
            raise RuleError(f"every must be at least 1, not {every!r}")
        if count is not None and count < 0:
            raise RuleError(f"count must not be negative: {count!r}")
        if weekdays is not None and (frequency != "weekly" or not all(0 <= day <= 6 for day in weekdays)):
            raise RuleError(f"weekdays are for weekly rules and go from 0 to 6: {weekdays!r}")
        if days is not None and (frequency != "monthly" or not all(1 <= abs(day) <= 31 for day in days)):
            raise RuleError(f"days are for monthly rules and go from 1 to 31 or -1 to -31: {days!r}")
        self.frequency = frequency
        self.start = start
        self.every = every
        self.count = count
        self.until = until
        self.weekdays = sorted(set(weekdays)) if weekdays is not None else [start.weekday()]
        self.days = list(days) if days is not None else [start.day]
        self.skip = frozenset(skip)

    def __iter__(self):
        """Yield the days in order; without `count` and `until` there is no end."""
        found = (day for day in self._candidates() if day >= self.start)
        if self.until is not None:
            found = takewhile(lambda day: day <= self.until, found)
        if self.count is not None:
            found = islice(found, self.count)
        return (day for day in found if day not in self.skip)

    def take(self, number):
        """Return the first days, at most `number`."""
        return list(islice(self, number))

    def between(self, first, last):
        """Return the days of a period, both ends included."""
        return [day for day in takewhile(lambda day: day <= last, self) if day >= first]

    def after(self, day, *, inclusive=False):
        """Return the next day after (or on) a day, or `None` if there is none."""
        for found in self:
            if found > day or (inclusive and found == day):
                return found
        return None

    def before(self, day):
        """Return the last day before a day, or `None` if there is none."""
        last = None
        for found in self:
            if found >= day:
                break
            last = found
        return last

    def __contains__(self, day):
        return self.after(day, inclusive=True) == day

    def _candidates(self):
        step = 0
        while True:
            try:
                yield from getattr(self, f"_{self.frequency}")(step)
            except (OverflowError, ValueError):
                return  # the calendar ends with the year 9999
            step += self.every

    def _daily(self, step):
        return [self.start + timedelta(days=step)]

    def _weekly(self, step):
        monday = start_of_week(self.start) + timedelta(weeks=step)
        return [monday + timedelta(days=weekday) for weekday in self.weekdays]

    def _monthly(self, step):
        month = add_months(self.start.replace(day=1), step)
        length = days_in_month(month.year, month.month)
        numbers = {day if day > 0 else length + 1 + day for day in self.days}
        return [month.replace(day=number) for number in sorted(numbers) if 1 <= number <= length]

    def _yearly(self, step):
        year = self.start.year + step
        if (self.start.month, self.start.day) == (2, 29) and days_in_month(year, 2) < 29:
            return []
        return [date(year, self.start.month, self.start.day)]


def merge(*rules):
    """Yield the days of several rules in order, each once."""
    previous = None
    for day in heapq.merge(*rules):
        if day != previous:
            yield day
        previous = day
