"""Sums with months and weeks."""

from calendar import monthrange
from datetime import date, timedelta


def days_in_month(year, month):
    """Return the number of days of a month."""
    return monthrange(year, month)[1]


def add_months(day, months):
    """Return the day so many months later, or the last day of the month if there is no such day."""
    index = day.year * 12 + day.month - 1 + months
    year, month = divmod(index, 12)
    return date(year, month + 1, min(day.day, days_in_month(year, month + 1)))


def start_of_week(day, first=0):
    """Return the first day of a week; `first` is the weekday it begins with, Monday being 0."""
    return day - timedelta(days=(day.weekday() - first) % 7)


def end_of_month(day):
    """Return the last day of a month."""
    return day.replace(day=days_in_month(day.year, day.month))


def months_between(start, end):
    """Return the number of whole months from one day to another; negative if it goes back."""
    if end < start:
        return -months_between(end, start)
    months = (end.year - start.year) * 12 + end.month - start.month
    if add_months(start, months) > end:
        months -= 1
    return months
