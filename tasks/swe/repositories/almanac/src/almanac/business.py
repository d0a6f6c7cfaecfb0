"""Business days."""

from datetime import date, timedelta

from almanac.arithmetic import end_of_month
from almanac.errors import AlmanacError


class Calendar:
    """Knows which days are worked on.

    Args:
        holidays: Dates, or functions from a year to a date.
        weekend: Weekdays that are free, Monday being 0.
    """

    def __init__(self, holidays=(), *, weekend=(5, 6)):
        self.weekend = frozenset(weekend)
        if len(self.weekend) >= 7:
            raise AlmanacError("a week needs a day that is not free")
        self._dates = {item for item in holidays if isinstance(item, date)}
        self._makers = [item for item in holidays if not isinstance(item, date)]
        self._years = {}

    def holidays(self, year):
        """Return the holidays of a year, in order."""
        if year not in self._years:
            made = {maker(year) for maker in self._makers}
            self._years[year] = made | {day for day in self._dates if day.year == year}
        return sorted(self._years[year])

    def is_business_day(self, day):
        """Whether a day is neither weekend nor holiday."""
        return day.weekday() not in self.weekend and day not in self.holidays(day.year)

    def next(self, day, *, same=False):
        """Return the next business day; with `same`, the day itself if it is one."""
        if not same:
            day += timedelta(days=1)
        while not self.is_business_day(day):
            day += timedelta(days=1)
        return day

    def previous(self, day, *, same=False):
        """Return the last business day before; with `same`, the day itself if it is one."""
        if not same:
            day -= timedelta(days=1)
        while not self.is_business_day(day):
            day -= timedelta(days=1)
        return day

    def add(self, day, days):
        """Return the day so many business days later, or earlier if negative."""
        step = self.next if days >= 0 else self.previous
        if days == 0:
            return step(day, same=True)
        for _ in range(abs(days)):
            day = step(day)
        return day

    def count(self, start, end):
        """Return how many business days there are from a day up to, and not including, another."""
        if end < start:
            return -self.count(end, start)
        days = (start + timedelta(days=offset) for offset in range((end - start).days))
        return sum(self.is_business_day(day) for day in days)

    def adjust(self, day, convention="following"):
        """Return a business day for a day.

        Args:
            day: The day.
            convention: `following`, `preceding`, or `modified`: the following one unless it is in another month.
        """
        if convention == "following":
            return self.next(day, same=True)
        if convention == "preceding":
            return self.previous(day, same=True)
        if convention == "modified":
            moved = self.next(day, same=True)
            return moved if moved.month == day.month else self.previous(day, same=True)
        raise AlmanacError(f"unknown convention {convention!r}")

    def last_of_month(self, day):
        """Return the last business day of a month."""
        return self.previous(end_of_month(day), same=True)
