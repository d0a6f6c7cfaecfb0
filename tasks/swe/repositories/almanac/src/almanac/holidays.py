"""Holidays as functions from a year to a date."""

from datetime import date, timedelta

from almanac.arithmetic import days_in_month
from almanac.errors import AlmanacError


def easter(year):
    """Return Easter Sunday of the Gregorian calendar."""
    golden = year % 19
    century, rest = divmod(year, 100)
    leap_centuries, century_rest = divmod(century, 4)
    moon = (century + 8) // 25
    epact = (19 * golden + century - leap_centuries - (century - moon + 1) // 3 + 15) % 30
    leap_years, year_rest = divmod(rest, 4)
    weekday = (32 + 2 * century_rest + 2 * leap_years - epact - year_rest) % 7
    late = (golden + 11 * epact + 22 * weekday) // 451
    month, day = divmod(epact + weekday - 7 * late + 114, 31)
    return date(year, month, day + 1)


def fixed(month, day):
    """Return a holiday that is on the same date each year."""
    return lambda year: date(year, month, day)


def nth_weekday(month, weekday, number):
    """Return a holiday such as 'third Monday of January'; a negative number counts from the end."""
    if number == 0 or abs(number) > 5:
        raise AlmanacError(f"number must be 1 to 5 or -1 to -5, not {number!r}")

    def holiday(year):
        if number > 0:
            first = date(year, month, 1)
            day = 1 + (weekday - first.weekday()) % 7 + 7 * (number - 1)
        else:
            length = days_in_month(year, month)
            last = date(year, month, length)
            day = length - (last.weekday() - weekday) % 7 + 7 * (number + 1)
        if not 1 <= day <= days_in_month(year, month):
            raise AlmanacError(f"month {month} of {year} has no such weekday")
        return date(year, month, day)

    return holiday


def relative_to_easter(days):
    """Return a holiday that is so many days after Easter Sunday."""
    return lambda year: easter(year) + timedelta(days=days)


def observed(holiday):
    """Return the holiday moved off weekends: from Saturday to Friday, from Sunday to Monday."""

    def moved(year):
        day = holiday(year)
        if day.weekday() == 5:
            return day - timedelta(days=1)
        if day.weekday() == 6:
            return day + timedelta(days=1)
        return day

    return moved
