"""Queries of the calendar site's pages: bookings, their participants, and when rooms and people are taken."""

from __future__ import annotations

from datetime import date

from agentgym.tasks.web.sites.calendar.slots import Span, minutes
from agentgym.tasks.web.sites.visit import PageProblem, Visit

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
