"""Queries of the calendar site's pages: bookings, their participants, and when rooms and people are taken."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta

from agentgym.tasks.web.sites.visit import PageProblem, Visit

OPENS, CLOSES = 8 * 60, 18 * 60
"""Opening hours in minutes after midnight, Monday to Friday."""
STEP = 15
"""Bookings start and end at multiples of this many minutes."""

Span = tuple[int, int]
"""Start and end, in minutes after midnight."""


def minutes(time: str) -> int:
    """Return a time such as `09:30` in minutes after midnight."""
    hours, _, rest = time.partition(":")
    return int(hours) * 60 + int(rest)


def clock(at: int) -> str:
    """Return minutes after midnight as `09:30`."""
    return f"{at // 60:02}:{at % 60:02}"


def overlap(first: Span, other: Span) -> bool:
    """Return whether two spans overlap."""
    return first[0] < other[1] and other[0] < first[1]


def free_spans(busy: Iterable[Span], length: int) -> list[Span]:
    """Return the gaps of at least `length` minutes that `busy` leaves within the opening hours."""
    gaps: list[Span] = []
    at = OPENS
    for start, end in sorted(busy):
        if start - at >= length:
            gaps.append((at, start))
        at = max(at, end)
    return [*gaps, (at, CLOSES)] if CLOSES - at >= length else gaps


def is_working_day(day: date) -> bool:
    """Return whether the house is open on that day."""
    return day.weekday() < 5


def next_working_day(day: date) -> date:
    """Return the day itself, or the Monday after it."""
    return day if is_working_day(day) else day + timedelta(days=7 - day.weekday())


def repeated(first: date, every: str, times: int) -> list[date]:
    """Return the days of a series: every `day` (working days only), `week` or `fortnight`."""
    days = [first]
    while len(days) < times:
        if every == "day":
            days.append(next_working_day(days[-1] + timedelta(days=1)))
        else:
            days.append(days[-1] + timedelta(weeks=2 if every == "fortnight" else 1))
    return days[:times]


def week_of(day: date) -> list[date]:
    """Return Monday to Friday of the week of a day."""
    monday = day - timedelta(days=day.weekday())
    return [monday + timedelta(days=number) for number in range(5)]


def weeks_of_month(day: date) -> list[list[date]]:
    """Return the weeks (Monday to Sunday) that the month of a day touches."""
    first = day.replace(day=1)
    following = (first + timedelta(days=31)).replace(day=1)
    monday = first - timedelta(days=first.weekday())
    count = -((monday - following).days // 7)
    return [[monday + timedelta(days=7 * week + number) for number in range(7)] for week in range(count)]


LIST = """
SELECT b.*, r.name AS room_name, r.seats, p.name AS organiser_name FROM bookings b
JOIN rooms r ON r.id = b.room JOIN people p ON p.id = b.organiser
"""
_MINE = "(b.organiser = ? OR b.id IN (SELECT booking FROM attendees WHERE person = ? AND answer <> 'no'))"


def bookings(visit: Visit, condition: str = "1", *params: object) -> list:
    """Return bookings in the order of their times."""
    return visit.rows(f"{LIST} WHERE {condition} ORDER BY b.day, b.starts, b.id", *params)


def of_person(visit: Visit, person: int, first: date, last: date) -> list:
    """Return a person's bookings between two days: those they organise, and those they have not declined."""
    return bookings(visit, f"{_MINE} AND b.day BETWEEN ? AND ?", person, person, str(first), str(last))


def room_taken(visit: Visit, room: int, day: str, without: int = 0) -> list[Span]:
    """Return when a room is taken on a day, leaving out one booking."""
    rows = visit.rows("SELECT * FROM bookings WHERE room = ? AND day = ? AND id <> ?", room, day, without)
    return [(minutes(row["starts"]), minutes(row["ends"])) for row in rows]


def person_taken(visit: Visit, person: int, day: str) -> list[Span]:
    """Return when a person is busy on a day."""
    return [
        (minutes(row["starts"]), minutes(row["ends"]))
        for row in bookings(visit, f"{_MINE} AND b.day = ?", person, person, day)
    ]


def me(visit: Visit) -> int:
    """Return the number of the person who owns this calendar."""
    return visit.value("SELECT person FROM account")


def asked_day(visit: Visit, name: str = "date") -> date:
    """Return the day in the query, by default today."""
    text = visit.query.get(name)
    if not text:
        return visit.now.date()
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise PageProblem(400, "Dates are written as YYYY-MM-DD.") from None
    if not 2000 <= day.year <= 2100:
        raise PageProblem(400, "The calendar goes from 2000 to 2100.")
    return day
