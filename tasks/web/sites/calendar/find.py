"""Lookups on the calendar site: the agenda with its search, rooms, people, and free slots."""

from __future__ import annotations

from datetime import timedelta

from agentgym.tasks.web.sites.calendar.store import (
    OPENS,
    asked_day,
    bookings,
    clock,
    free_spans,
    is_working_day,
    of_person,
    person_taken,
    room_taken,
    week_of,
)
from agentgym.tasks.web.sites.office import fold
from agentgym.tasks.web.sites.site import Routes, SiteReply
from agentgym.tasks.web.sites.visit import PageProblem, Visit

ROUTES = Routes()
LENGTHS = (15, 30, 45, 60, 90, 120, 180, 240)


@ROUTES.get("/agenda")
def agenda(visit: Visit) -> SiteReply:
    """List all bookings of the house from a day on, with a search."""
    since, until = str(asked_day(visit, "since")), visit.query.get("until") or "9"
    words, room = fold(visit.query.get("q", "")), visit.query.get("room")
    rows = [
        row
        for row in bookings(visit, "b.day BETWEEN ? AND ?", since, until)
        if (not room or str(row["room"]) == room)
        and words in fold(f"{row['title']}\n{row['note']}\n{row['organiser_name']}")
    ]
    rooms = visit.rows("SELECT * FROM rooms ORDER BY name")
    return visit.page("calendar/agenda.html", pager=visit.pager(rows), since=since, rooms=rooms)


@ROUTES.get("/rooms")
def show_rooms(visit: Visit) -> SiteReply:
    """List all rooms, or those that are large enough and have the required equipment."""
    least = visit.query.get("seats", "")
    least_seats = int(least) if least.isascii() and least.isdecimal() and len(least) < 5 else 0
    needs = [name for name in ("screen", "video") if visit.query.get(name)]
    rows = visit.rows("SELECT * FROM rooms")
    rows = [row for row in rows if row["seats"] >= least_seats and all(row[name] for name in needs)]
    key = {"seats": "seats", "floor": "floor"}.get(visit.query.get("sort", ""), "name")
    rows.sort(key=lambda row: (fold(row[key]) if key == "name" else row[key], row["name"]))
    return visit.page("calendar/rooms.html", rows=rows)


@ROUTES.get("/rooms/{number:int}")
def show_room(visit: Visit, number: int) -> SiteReply:
    """Show the week of one room."""
    room = visit.find("room", "SELECT * FROM rooms WHERE id = ?", number)
    days = week_of(asked_day(visit))
    rows = bookings(visit, "b.room = ? AND b.day BETWEEN ? AND ?", number, str(days[0]), str(days[-1]))
    return _week(visit, "calendar/room.html", days, rows, room=room)


@ROUTES.get("/people")
def show_people(visit: Visit) -> SiteReply:
    """List everybody who works here."""
    words = fold(visit.query.get("q", ""))
    rows = [
        row
        for row in visit.rows("SELECT * FROM people")
        if words in fold(f"{row['name']} {row['email']} {row['team']}")
    ]
    return visit.page("calendar/people.html", pager=visit.pager(sorted(rows, key=lambda row: fold(row["name"]))))


@ROUTES.get("/people/{number:int}")
def show_person(visit: Visit, number: int) -> SiteReply:
    """Show the week of one person."""
    person = visit.find("person", "SELECT * FROM people WHERE id = ?", number)
    days = week_of(asked_day(visit))
    return _week(visit, "calendar/person.html", days, of_person(visit, number, days[0], days[-1]), person=person)


@ROUTES.get("/free")
def show_free(visit: Visit) -> SiteReply:
    """List the free slots of a day: long enough, in rooms that are large enough, and free for the given people."""
    day, form = asked_day(visit, "day"), visit.query
    length = form.get("minutes", "60")
    if length not in map(str, LENGTHS):
        raise PageProblem(400, "There is no such length.")
    seats = form.get("seats", "")
    least = int(seats) if seats.isascii() and seats.isdecimal() and len(seats) < 5 else 0
    people, unknown = _people(visit, form.get("people", ""))
    busy = [span for person in people for span in person_taken(visit, person, str(day))]
    offers = []
    for room in visit.rows("SELECT * FROM rooms WHERE seats >= ? ORDER BY seats, name", least):
        if any(form.get(name) and not room[name] for name in ("screen", "video")):
            continue
        spans = free_spans([*room_taken(visit, room["id"], str(day)), *busy], int(length))
        offers.append((room, [(clock(start), clock(end)) for start, end in spans]))
    rooms = offers if is_working_day(day) else []
    return visit.page(
        "calendar/free.html",
        day=day,
        length=int(length),
        lengths=LENGTHS,
        found=rooms,
        unknown=unknown,
        opens=clock(OPENS),
    )


def _people(visit: Visit, text: str) -> tuple[list[int], list[str]]:
    ids = {fold(row[key]): row["id"] for row in visit.rows("SELECT * FROM people") for key in ("name", "email")}
    names = [part.strip() for part in text.replace(";", ",").split(",") if part.strip()]
    return [ids[fold(name)] for name in names if fold(name) in ids], [name for name in names if fold(name) not in ids]


def _week(visit: Visit, template: str, days, rows, **context) -> SiteReply:
    grouped = [(day, [row for row in rows if row["day"] == str(day)]) for day in days]
    return visit.page(
        template, days=grouped, before=days[0] - timedelta(days=7), after=days[0] + timedelta(days=7), **context
    )
