"""Families of the calendar site: booking, changing and cancelling."""

from __future__ import annotations

from datetime import date

from agentgym.tasks.web.calendar.steps import (
    BOOKED,
    NOTES,
    TITLES,
    book,
    booked,
    coming_days,
    invited,
    is_free,
    look_for_slots,
    me,
    names_of,
    open_booking,
    pick_booking,
    pick_people,
    room_taken,
    some_time,
    spoken,
)
from agentgym.tasks.web.checks import check, exists
from agentgym.tasks.web.family import IMPOSSIBLE, WebDraft, WebScene, family
from agentgym.tasks.web.plan import accept, answer, button, fill, link, number, select
from agentgym.tasks.web.sites.calendar.fill import REPEATS
from agentgym.tasks.web.sites.calendar.store import minutes, repeated


@family(
    "calendar.book",
    2,
    "Book the room {room} on {day} from {starts} to {ends} for “{title}”. Nobody needs to be invited. Note: “{note}”",
    "I need {room} on {day}, {starts} to {ends}. Book it under the title “{title}” with the note “{note}”, without "
    "other people.",
    "Please reserve {room} for “{title}” on {day}, {starts} to {ends}. The note is “{note}”, and there is "
    "nobody to invite.",
)
def book_room(scene: WebScene) -> WebDraft:
    """Fill in the form of a new booking."""
    room, on, (starts, ends) = scene.pick("SELECT * FROM rooms"), scene.choice(coming_days(scene)), some_time(scene)
    scene.need(is_free(room_taken(scene, room["id"], on), starts, ends))
    title, note = scene.choice(TITLES), scene.choice(NOTES)
    return WebDraft(
        [*book(title, room["name"], on, starts, ends, note=note), button("Save booking")],
        {"room": room["name"], "day": spoken(on), "starts": starts, "ends": ends, "title": title, "note": note},
        [booked(scene, title, room["id"], on, starts, ends, note)],
        checks=[exists("booked", BOOKED, title, room["id"], on, starts)],
    )


@family(
    "calendar.cancel",
    2,
    "Cancel my booking “{title}” on {day} (only that day).",
    "“{title}” on {day} will not take place. I organise it; cancel it, but no other booking.",
    "We will skip “{title}” on {day}. It is my booking: cancel it for that day only.",
)
def cancel(scene: WebScene) -> WebDraft:
    """Cancel one booking."""
    booking = pick_booking(scene, "b.organiser = ?", me(scene))
    return WebDraft(
        [*open_booking(booking), accept(), button("Cancel booking")],
        {"title": booking["title"], "day": spoken(booking["day"])},
        [("DELETE FROM bookings WHERE id = ?", [booking["id"]])],
        checks=[check("cancelled", "SELECT count(*) = 0 FROM bookings WHERE id = ?", booking["id"])],
    )


@family(
    "calendar.move",
    2,
    "Move my booking “{title}” from {day} to {new_day}, {starts} to {ends}, in the same room.",
    "“{title}” ({day}) takes place on {new_day} from {starts} to {ends} instead. The room stays. Change my booking.",
    "Please reschedule my booking “{title}” on {day}: the new time is {new_day}, {starts} to {ends}, in the same room.",
)
def move(scene: WebScene) -> WebDraft:
    """Change the day and time of a booking."""
    booking = pick_booking(scene, "b.organiser = ?", me(scene))
    on, (starts, ends) = scene.choice([day for day in coming_days(scene) if day != booking["day"]]), some_time(scene)
    scene.need(is_free(room_taken(scene, booking["room"], on), starts, ends))
    steps = [link("Change booking"), fill("Day", on), fill("From", starts), fill("To", ends), button("Save booking")]
    words = {
        "title": booking["title"],
        "day": spoken(booking["day"]),
        "new_day": spoken(on),
        "starts": starts,
        "ends": ends,
    }
    return WebDraft(
        [*open_booking(booking), *steps],
        words,
        [("UPDATE bookings SET day = ?, starts = ?, ends = ? WHERE id = ?", [on, starts, ends, booking["id"]])],
        checks=[exists("moved", "bookings WHERE id = ? AND day = ? AND starts = ?", booking["id"], on, starts)],
    )


@family(
    "calendar.invite",
    3,
    "Invite {names} to my booking “{title}” on {day}. Those who are invited already stay invited.",
    "{names} should come to “{title}” on {day}, too. Add them to my booking, and keep the others.",
    "Please add {names} as guests of my booking “{title}” on {day}, without removing anyone.",
)
def invite(scene: WebScene) -> WebDraft:
    """Add people to a booking."""
    booking = pick_booking(scene, "b.organiser = ?", me(scene))
    present = scene.rows(
        "SELECT p.* FROM people p JOIN attendees a ON a.person = p.id WHERE a.booking = ? ORDER BY p.name",
        booking["id"],
    )
    added = pick_people(scene, 2, "id NOT IN (SELECT person FROM attendees WHERE booking = ?)", booking["id"])
    scene.need(len(present) + 3 <= booking["seats"])
    names = ", ".join(person["name"] for person in (*present, *added))
    return WebDraft(
        [*open_booking(booking), link("Change booking"), fill("People", names), button("Save booking")],
        {"names": names_of(added), "title": booking["title"], "day": spoken(booking["day"])},
        invited(added, booking["id"]),
        checks=[
            exists(person["name"], "attendees WHERE booking = ? AND person = ?", booking["id"], person["id"])
            for person in added
        ],
    )


@family(
    "calendar.series",
    3,
    "Book {room} for “{title}” from {starts} to {ends}, {every}, {times} times, for the first time on {day}. Invite "
    "{names}.",
    "Set up a repeated booking: “{title}” in {room}, {starts} to {ends}, {every}, {times} times in all, beginning on "
    "{day}, with {names}.",
    "Please book {room} for a series called “{title}”: {starts} to {ends}, {every}, starting on {day}, "
    "{times} times altogether. Invite {names}.",
)
def book_series(scene: WebScene) -> WebDraft:
    """Book several days at once."""
    room, on, (starts, ends) = scene.pick("SELECT * FROM rooms"), scene.choice(coming_days(scene)), some_time(scene)
    every, times = scene.choice(("day", "week", "fortnight")), scene.rng.randrange(3, 6)
    days = [str(day) for day in repeated(date.fromisoformat(on), every, times)]
    scene.need(all(is_free(room_taken(scene, room["id"], day), starts, ends) for day in days))
    people, title = pick_people(scene, 2), scene.choice(TITLES)
    scene.need(room["seats"] >= 3)
    steps = book(title, room["name"], on, starts, ends, ", ".join(person["name"] for person in people))
    steps += [select("Repeat", REPEATS[every]), number("How many times", times), button("Save booking")]
    series = scene.value("SELECT coalesce(max(id), 0) + 1 FROM series")
    effect = [("INSERT INTO series (every, times) VALUES (?, ?)", [every, times])]
    for date_text in days:
        effect += [booked(scene, title, room["id"], date_text, starts, ends, series=series), *invited(people)]
    words = {"room": room["name"], "title": title, "starts": starts, "ends": ends, "every": REPEATS[every].lower()}
    return WebDraft(
        steps,
        words | {"times": times, "day": spoken(on), "names": names_of(people)},
        effect,
        checks=[
            exists("first day", BOOKED, title, room["id"], days[0], starts),
            exists("last day", BOOKED, title, room["id"], days[-1], starts),
        ],
    )


@family(
    "calendar.book_if_free",
    3,
    "Book {room} on {day} from {starts} to {ends} for “{title}”. If the room is taken then, change nothing and answer "
    "“impossible”.",
    "Is {room} free on {day} between {starts} and {ends}? If so, book it for “{title}”; if not, leave everything as "
    "it is and answer “impossible”.",
    "I would like to have {room} on {day}, {starts} to {ends}, for “{title}”. Book it if it is free for the "
    "whole time; otherwise change nothing and answer “impossible”.",
)
def book_if_free(scene: WebScene) -> WebDraft:
    """Book a room that may be taken already."""
    on, (starts, ends) = scene.choice(coming_days(scene)), some_time(scene, (60, 90, 120))
    room = scene.pick("SELECT * FROM rooms WHERE id IN (SELECT room FROM bookings WHERE day = ?)", on)
    free = is_free(room_taken(scene, room["id"], on), starts, ends)
    scene.need(not free or scene.rng.random() < 0.25)
    title = scene.choice(TITLES)
    words = {"room": room["name"], "day": spoken(on), "starts": starts, "ends": ends, "title": title}
    if not free:
        return WebDraft(
            [*look_for_slots(on, minutes(ends) - minutes(starts)), answer(IMPOSSIBLE)], words, answer=IMPOSSIBLE
        )
    return WebDraft(
        [*book(title, room["name"], on, starts, ends), button("Save booking")],
        words,
        [booked(scene, title, room["id"], on, starts, ends)],
        checks=[exists("booked", BOOKED, title, room["id"], on, starts)],
    )
