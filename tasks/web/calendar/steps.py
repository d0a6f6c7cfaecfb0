"""Helpers of the calendar site's families: steps that find bookings and fill in the form, and free times."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import Any

from agentgym.tasks.web.family import Change, Step, WebScene
from agentgym.tasks.web.plan import button, fill, link, select
from agentgym.tasks.web.sites.calendar.store import Span, clock, is_working_day, minutes, overlap
from agentgym.tasks.web.sites.office import long_date
from agentgym.tasks.web.sites.pages import day

TITLES = (
    "Farewell coffee", "Board preparation", "Chemistry call", "Photo session", "Moving plans",
    "Reading “Dune” together", "O'Neill & Co visit", "Tender", "Fire drill briefing", "Onboarding", "Café tasting",
    "Sprint zero",
)  # fmt: skip
NOTES = ("Bring your badge.", "Tea & biscuits!", "See the file “plan-7”.", "Please be on time.", "Dial-in possible.")
BOOKED = "bookings WHERE title = ? AND room = ? AND day = ? AND starts = ?"
"""SQL condition of a new booking, for checks."""
LIST = (
    "SELECT b.*, r.name AS room_name, r.seats, p.name AS organiser_name FROM bookings b JOIN rooms r ON r.id = b.room "
    "JOIN people p ON p.id = b.organiser"
)


def me(scene: WebScene) -> int:
    """Return the number of the person who owns the calendar."""
    return scene.value("SELECT person FROM account")


def spoken(stored: str) -> str:
    """Return a stored day as prompts write it."""
    return long_date(date.fromisoformat(stored))


def pick_booking(scene: WebScene, condition: str = "1", *params: Any) -> sqlite3.Row:
    """Return a future booking that its title and day identify."""
    booking = scene.pick(f"{LIST} WHERE b.day >= ? AND ({condition})", scene.today, *params)
    return scene.only(f"{LIST} WHERE b.title = ? AND b.day = ?", booking["title"], booking["day"])


def coming_days(scene: WebScene, least: int = 1, most: int = 18) -> list[str]:
    """Return the working days to come."""
    today = date.fromisoformat(scene.today)
    days = [today + timedelta(days=number) for number in range(least, most + 1)]
    return [str(date_) for date_ in days if is_working_day(date_)]


def called(booking: sqlite3.Row) -> str:
    """Return the text of links to a booking in lists."""
    return f"{booking['title']}, {day(booking['day'])} at {booking['starts']}"


def open_booking(booking: sqlite3.Row) -> list[Step]:
    """Return the steps that find a booking and open it."""
    when = booking["day"]
    steps = [fill("Search bookings", booking["title"], role="searchbox"), button("Search")]
    return [*steps, fill("Since", when), fill("Until", when), button("Filter"), link(called(booking))]


def book(title: str, room: str, when: str, starts: str, ends: str, people: str = "", note: str = "") -> list[Step]:
    """Return the steps that fill in the form of a new booking."""
    steps = [link("New booking"), fill("Title", title), select("Room", room), fill("Day", when)]
    steps += [fill("From", starts), fill("To", ends)]
    steps += [fill("People", people)] if people else []
    return steps + ([fill("Note", note)] if note else [])


def look_for_slots(when: str, length: int, people: str = "", seats: int = 0) -> list[Step]:
    """Return the steps that list the free slots of a day."""
    steps = [link("Free slots"), fill("Day", when), select("Minutes", str(length))]
    steps += [fill("Seats, at least", str(seats), role="spinbutton")] if seats else []
    steps += [fill("People who must be free", people)] if people else []
    return [*steps, button("Find slots")]


def booked(
    scene: WebScene, title: str, room: int, when: str, starts: str, ends: str, note: str = "", series: int | None = None
) -> Change:
    """Return the change that inserts one new booking, without its participants."""
    sql = (
        "INSERT INTO bookings (title, room, organiser, day, starts, ends, note, series) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    )
    return sql, [title, room, me(scene), when, starts, ends, note, series]


def invited(people: Iterable[sqlite3.Row], booking: int | None = None) -> list[Change]:
    """Return the changes that invite people to a booking (by default, the latest one)."""
    sql = "INSERT INTO attendees (booking, person) VALUES (coalesce(?, (SELECT max(id) FROM bookings)), ?)"
    return [(sql, [booking, person["id"]]) for person in people]


def room_taken(scene: WebScene, room: int, when: str, without: int = 0) -> list[Span]:
    """Return when a room is taken on a day, leaving out the booking `without`."""
    return _spans(scene.rows("SELECT * FROM bookings WHERE room = ? AND day = ? AND id <> ?", room, when, without))


def person_taken(scene: WebScene, person: int, when: str) -> list[Span]:
    """Return when a person is busy on a day."""
    theirs = "organiser = ? OR id IN (SELECT booking FROM attendees WHERE person = ? AND answer <> 'no')"
    return _spans(scene.rows(f"SELECT * FROM bookings WHERE day = ? AND ({theirs})", when, person, person))


def is_free(busy: Sequence[Span], starts: str, ends: str) -> bool:
    """Return whether the time between `starts` and `ends` is free."""
    return not any(overlap(span, (minutes(starts), minutes(ends))) for span in busy)


def some_time(scene: WebScene, lengths: Sequence[int] = (30, 45, 60, 90)) -> tuple[str, str]:
    """Return a random start and end within the opening hours."""
    length = scene.choice(lengths)
    start = scene.rng.randrange(8 * 60, 18 * 60 - length + 1, 15)
    return clock(start), clock(start + length)


def names_of(people: Sequence[sqlite3.Row], last: str = "and", *others: str) -> str:
    """Return names, and after them `others`, as prompts list them: `A, B and C`."""
    names = [*(person["name"] for person in people), *others]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def pick_people(scene: WebScene, count: int, condition: str = "1", *params: Any) -> list[sqlite3.Row]:
    """Return some people other than the owner of the calendar, by number."""
    people = scene.rows(f"SELECT * FROM people WHERE id <> ? AND ({condition})", me(scene), *params)
    scene.need(len(people) >= count)
    return sorted(scene.rng.sample(people, count), key=lambda person: person["id"])


def _spans(rows: Iterable[sqlite3.Row]) -> list[Span]:
    return [(minutes(row["starts"]), minutes(row["ends"])) for row in rows]
