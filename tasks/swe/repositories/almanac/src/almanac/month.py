"""A month as text."""

from datetime import date, timedelta

from almanac.arithmetic import days_in_month, start_of_week

NAMES = ("Mo", "Tu", "We", "Th", "Fr", "Sa", "Su")


def month_view(year, month, *, first=0, marked=(), weeks=False):
    """Return a month as lines of text.

    Args:
        year: The year.
        month: The month.
        first: The weekday that weeks begin with, Monday being 0.
        marked: Days that get a star.
        weeks: Whether ISO week numbers stand in front.
    """
    start = date(year, month, 1)
    end = start.replace(day=days_in_month(year, month))
    marked = set(marked)
    header = " ".join(f"{NAMES[(first + offset) % 7]:>3}" for offset in range(7))
    lines = [("   " if weeks else "") + header]
    monday = start_of_week(start, first)
    while monday <= end:
        cells = [_cell(monday + timedelta(days=offset), month, marked) for offset in range(7)]
        prefix = f"{(monday + timedelta(days=(3 - first) % 7)).isocalendar().week:>2} " if weeks else ""
        lines.append((prefix + " ".join(cells)).rstrip())
        monday += timedelta(weeks=1)
    return lines


def _cell(day, month, marked):
    if day.month != month:
        return "   "
    return f"{day.day:>2}{'*' if day in marked else ' '}"
