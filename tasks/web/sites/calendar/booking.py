"""Bookings of the calendar site: details, the form with its rules, repeated bookings, cancellation, and invitations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from agentgym.tasks.web.sites.calendar.fill import REPEATS
from agentgym.tasks.web.sites.calendar.store import (
    CLOSES,
    LIST,
    OPENS,
    STEP,
    bookings,
    clock,
    is_working_day,
    me,
    minutes,
    overlap,
    repeated,
    room_taken,
)
from agentgym.tasks.web.sites.forms import SiteForm
from agentgym.tasks.web.sites.office import fold, same_site
from agentgym.tasks.web.sites.site import Routes, SiteReply
from agentgym.tasks.web.sites.visit import PageProblem, Visit

ROUTES = Routes()
ANSWERS = {"yes": "accepted", "no": "declined", "open": "not answered"}
_MOST_TIMES = 20


@dataclass(frozen=True)
class Wish:
    """The checked content of a booking form."""

    title: str
    room: int
    days: list[date]
    starts: str
    ends: str
    people: list[int]
    note: str
    every: str


@ROUTES.get("/booking/new")
def new_booking(visit: Visit) -> SiteReply:
    """Show an empty form for a booking."""
    names = {"room": "", "day": f"{visit.now:%Y-%m-%d}", "starts": "", "ends": "", "people": ""}
    start = {name: visit.query.get(name, value) for name, value in names.items()}
    return _page(visit, None, SiteForm.filled(start | {"every": "once", "times": 1}))


@ROUTES.post("/booking/new")
def add_booking(visit: Visit) -> SiteReply:
    """Book a room, once or several times."""
    wish = _read(visit, None)
    if wish is None:
        return _page(visit, None, visit.form, 422)
    series = None
    if len(wish.days) > 1:
        series = visit.run("INSERT INTO series (every, times) VALUES (?, ?)", wish.every, len(wish.days))
    for day in wish.days:
        number = visit.run(
            "INSERT INTO bookings (title, room, organiser, day, starts, ends, note, series) VALUES (?, ?, ?, ?, ?, ?, "
            "?, ?)",
            *(wish.title, wish.room, me(visit), str(day), wish.starts, wish.ends, wish.note, series),
        )
        _invite(visit, number, wish.people)
    times = f" {len(wish.days)} times" if series else ""
    return visit.redirect(f"/week?date={wish.days[0]}", f"“{wish.title}” was booked{times}.")


@ROUTES.get("/booking/{number:int}")
def show_booking(visit: Visit, number: int) -> SiteReply:
    """Show one booking and its participants."""
    booking = visit.find("booking", f"{LIST} WHERE b.id = ?", number)
    people = visit.rows(
        "SELECT p.*, a.answer FROM attendees a JOIN people p ON p.id = a.person WHERE a.booking = ? ORDER BY p.name",
        number,
    )
    mine = booking["organiser"] == me(visit)
    return visit.page(
        "calendar/booking.html",
        booking=booking,
        people=people,
        mine=mine,
        invited=next((row["answer"] for row in people if row["id"] == me(visit)), None),
        series=visit.row("SELECT * FROM series WHERE id = ?", booking["series"]),
        repeats=REPEATS,
        answers=ANSWERS,
    )


@ROUTES.get("/booking/{number:int}/edit")
def edit_booking(visit: Visit, number: int) -> SiteReply:
    """Show a booking as a form."""
    booking = _own(visit, number)
    names = visit.rows(
        "SELECT p.name FROM attendees a JOIN people p ON p.id = a.person WHERE a.booking = ? ORDER BY p.name", number
    )
    return _page(visit, booking, SiteForm.filled(dict(booking) | {"people": ", ".join(row["name"] for row in names)}))


@ROUTES.post("/booking/{number:int}/edit")
def change_booking(visit: Visit, number: int) -> SiteReply:
    """Change a booking; in a series, only this one."""
    booking = _own(visit, number)
    wish = _read(visit, number)
    if wish is None:
        return _page(visit, booking, visit.form, 422)
    visit.run(
        "UPDATE bookings SET title = ?, room = ?, day = ?, starts = ?, ends = ?, note = ? WHERE id = ?",
        *(wish.title, wish.room, str(wish.days[0]), wish.starts, wish.ends, wish.note, number),
    )
    _invite(visit, number, wish.people)
    return visit.redirect(f"/booking/{number}", "The booking was changed.")


@ROUTES.post("/booking/{number:int}/cancel")
def cancel_booking(visit: Visit, number: int) -> SiteReply:
    """Cancel a booking, or it and all later ones of its series."""
    booking = _own(visit, number)
    if visit.form.flag("later") and booking["series"]:
        visit.run("DELETE FROM bookings WHERE series = ? AND day >= ?", booking["series"], booking["day"])
    else:
        visit.run("DELETE FROM bookings WHERE id = ?", number)
    return visit.redirect(f"/week?date={booking['day']}", f"“{booking['title']}” was cancelled.")


@ROUTES.get("/invitations")
def invitations(visit: Visit) -> SiteReply:
    """List the invitations that wait for an answer."""
    condition = "b.day >= ? AND b.id IN (SELECT booking FROM attendees WHERE person = ? AND answer = 'open')"
    rows = bookings(visit, condition, f"{visit.now:%Y-%m-%d}", me(visit))
    return visit.page("calendar/invitations.html", pager=visit.pager(rows))


@ROUTES.post("/booking/{number:int}/answer")
def answer_invitation(visit: Visit, number: int) -> SiteReply:
    """Accept or decline an invitation."""
    answer = visit.form.choice("answer", ("yes", "no"))
    if not visit.form.ok:
        raise PageProblem(400, "Invitations are accepted or declined.")
    visit.find("invitation", "SELECT * FROM attendees WHERE booking = ? AND person = ?", number, me(visit))
    visit.run("UPDATE attendees SET answer = ? WHERE booking = ? AND person = ?", answer, number, me(visit))
    back = same_site(visit.form.values.get("back", ""), "/invitations")
    return visit.redirect(back, f"You {ANSWERS[answer]} the invitation.")


def _own(visit: Visit, number: int):
    booking = visit.find("booking", f"{LIST} WHERE b.id = ?", number)
    if booking["organiser"] != me(visit):
        raise PageProblem(403, "Only the organiser can change a booking.")
    return booking


def _read(visit: Visit, number: int | None) -> Wish | None:
    form = visit.form
    title = form.text("title", most=80)
    rooms = {str(row["id"]): row for row in visit.rows("SELECT * FROM rooms")}
    room = rooms.get(form.choice("room", rooms))
    day, starts, ends = form.date("day"), form.time("starts"), form.time("ends")
    people = _people(visit)
    note = form.text("note", required=False, most=1000)
    every = "once" if number else form.choice("every", REPEATS)
    times = form.integer("times", 1, _MOST_TIMES, default=1) if every != "once" else 1
    if form.ok:
        _check_times(form, date.fromisoformat(day), starts, ends)
    if form.ok and room is not None and len(people) + 1 > room["seats"]:
        form.error("room", f"{room['name']} has {room['seats']} seats, but {len(people) + 1} people come.")
    if not form.ok or room is None:
        return None
    days = repeated(date.fromisoformat(day), every, times)
    wish = (minutes(starts), minutes(ends))
    for date_ in days:
        if any(overlap(wish, span) for span in room_taken(visit, room["id"], str(date_), number or 0)):
            form.error("room", f"{room['name']} is taken on {date_} between {starts} and {ends}.")
            return None
    return Wish(title, room["id"], days, starts, ends, people, note, every)


def _check_times(form: SiteForm, day: date, starts: str, ends: str) -> None:
    start, end = minutes(starts), minutes(ends)
    if not is_working_day(day):
        form.error("day", "Rooms can be booked from Monday to Friday.")
    if not 2000 <= day.year <= 2100:
        form.error("day", "The calendar goes from 2000 to 2100.")
    if end <= start:
        form.error("ends", "The end must be after the start.")
    for name, at in (("starts", start), ("ends", end)):
        if not OPENS <= at <= CLOSES:
            form.error(name, f"The house is open from {clock(OPENS)} to {clock(CLOSES)}.")
        if at % STEP:
            form.error(name, f"Please use steps of {STEP} minutes.")


def _people(visit: Visit) -> list[int]:
    ids = {fold(row[key]): row["id"] for row in visit.rows("SELECT * FROM people") for key in ("name", "email")}
    text = visit.form.text("people", required=False, most=1000)
    people: set[int] = set()
    for part in filter(None, (part.strip() for part in text.replace(";", ",").split(","))):
        if fold(part) not in ids:
            visit.form.error("people", f"Nobody here is called “{part}”.")
        people.add(ids.get(fold(part), 0))
    return sorted(people - {me(visit), 0})


def _invite(visit: Visit, number: int, people: list[int]) -> None:
    marks = ", ".join("?" * len(people))
    visit.run(f"DELETE FROM attendees WHERE booking = ? AND person NOT IN ({marks})", number, *people)
    for person in people:
        visit.run("INSERT OR IGNORE INTO attendees (booking, person) VALUES (?, ?)", number, person)


def _page(visit: Visit, booking, form: SiteForm, status: int = 200) -> SiteReply:
    rooms = [(row["id"], row["name"]) for row in visit.rows("SELECT * FROM rooms ORDER BY name")]
    return visit.page(
        "calendar/form.html", status, booking=booking, form=form, room_options=rooms, repeats=list(REPEATS.items())
    )
