"""Families of the calendar site: facts, counts, and answers to invitations."""

from __future__ import annotations

from datetime import date

from agentgym.tasks.web.calendar.steps import (
    LIST,
    called,
    coming_days,
    is_free,
    me,
    names_of,
    open_booking,
    person_taken,
    pick_booking,
    pick_people,
    spoken,
)
from agentgym.tasks.web.checks import exists
from agentgym.tasks.web.family import WebDraft, WebScene, family
from agentgym.tasks.web.plan import answer, button, fill, link, select
from agentgym.tasks.web.sites.calendar.store import clock, free_spans, minutes, week_of

_OPEN = "b.id IN (SELECT booking FROM attendees WHERE person = ? AND answer = 'open')"
_ANSWERED = "attendees WHERE booking = ? AND person = ? AND answer = ?"
_PAGE = 10


@family(
    "calendar.when",
    1,
    "When does “{title}” on {day} begin? Answer with the time.",
    "At what time does the booking “{title}” start on {day}?",
    "Look up the start of “{title}” on {day}. Answer as HH:MM.",
)
def when(scene: WebScene) -> WebDraft:
    """Find a booking in the agenda and read its time."""
    booking = pick_booking(scene)
    words = {"title": booking["title"], "day": spoken(booking["day"])}
    return WebDraft([*open_booking(booking), answer(booking["starts"])], words, answer=booking["starts"])


@family(
    "calendar.room_of",
    1,
    "In which room is “{title}” on {day}?",
    "Where does “{title}” take place on {day}? Answer with the name of the room.",
    "I have to go to “{title}” on {day}. Which room is it in?",
)
def room_of(scene: WebScene) -> WebDraft:
    """Find a booking in the agenda and read its room."""
    booking = pick_booking(scene)
    words = {"title": booking["title"], "day": spoken(booking["day"])}
    return WebDraft([*open_booking(booking), answer(booking["room_name"])], words, answer=booking["room_name"])


@family(
    "calendar.seats",
    2,
    "How many seats does the room have in which “{title}” takes place on {day}? Answer with a number.",
    "“{title}” on {day}: how many people can sit in its room? Answer with a number.",
    "Find out where “{title}” takes place on {day} and how many seats that room has. Answer with the number of seats.",
)
def seats(scene: WebScene) -> WebDraft:
    """Follow a booking to its room."""
    booking = pick_booking(scene)
    count = str(booking["seats"])
    words = {"title": booking["title"], "day": spoken(booking["day"])}
    return WebDraft([*open_booking(booking), link(booking["room_name"]), answer(count)], words, answer=count)


@family(
    "calendar.count_room",
    2,
    "How many bookings does the room {room} have from {first} to {last}? Answer with a number.",
    "Count the bookings of {room} between {first} and {last} (both days included). Answer with a number.",
    "From {first} up to and including {last}, how often is {room} booked? Answer with a number.",
)
def count_room(scene: WebScene) -> WebDraft:
    """Filter the agenda by room and days."""
    room = scene.pick("SELECT * FROM rooms")
    days = week_of(date.fromisoformat(scene.choice(coming_days(scene, 3, 17))))
    first, last = str(max(days[0], date.fromisoformat(scene.today))), str(days[-1])
    count = str(
        scene.value("SELECT count(*) FROM bookings WHERE room = ? AND day BETWEEN ? AND ?", room["id"], first, last)
    )
    steps = [link("Agenda"), select("Room", room["name"]), fill("Since", first), fill("Until", last), button("Filter")]
    words = {"room": room["name"], "first": spoken(first), "last": spoken(last)}
    return WebDraft([*steps, answer(count)], words, answer=count)


@family(
    "calendar.free_slot",
    3,
    "On {day}, from what time on is the room {room} free for {length} minutes? Answer with the earliest start that "
    "also suits {names}, apart from bookings that they have declined.",
    "What is the earliest time on {day} at which {room} is free for {length} minutes and {names} can come, too? "
    "What they have declined does not keep them from coming.",
    "{names} need {length} minutes in {room} on {day}. What is the earliest start at which the room is free "
    "and they have nothing else, apart from what they have declined?",
)
def free_slot(scene: WebScene) -> WebDraft:
    """Read the list of free slots."""
    on, room = scene.choice(coming_days(scene)), scene.pick("SELECT * FROM rooms WHERE seats > 3")
    people, length = pick_people(scene, 2), scene.choice((60, 90, 120))
    busy = [span for person in people for span in person_taken(scene, person["id"], on)]
    rows = scene.rows("SELECT * FROM bookings WHERE room = ? AND day = ?", room["id"], on)
    busy += [(minutes(row["starts"]), minutes(row["ends"])) for row in rows]
    spans = free_spans(busy, length)
    scene.need(spans and spans[0][0] > 8 * 60)
    start = clock(spans[0][0])
    steps = [link("Free slots"), fill("Day", on), select("Minutes", str(length))]
    steps += [fill("People who must be free", ", ".join(person["name"] for person in people)), button("Find slots")]
    words = {"day": spoken(on), "room": room["name"], "length": length, "names": names_of(people)}
    return WebDraft([*steps, answer(start)], words, answer=start)


@family(
    "calendar.busiest",
    3,
    "Who has the most bookings on {day}, without those that they have declined: {any_of}? Answer with the name.",
    "Compare the calendars of {names} on {day}. Which of them has the most bookings that day? Those that they have "
    "declined do not count. Answer with the name.",
    "On {day}, which of these people has the largest number of bookings, leaving out declined ones: {any_of}? Answer "
    "with the name.",
)
def busiest(scene: WebScene) -> WebDraft:
    """Compare the weeks of three people."""
    on, people = scene.choice(coming_days(scene, 1, 4)), pick_people(scene, 3)
    counts = sorted((len(person_taken(scene, person["id"], on)), person["name"]) for person in people)
    scene.need(counts[-1][0] > counts[-2][0])
    steps = []
    for person in people:
        steps += [
            link("People"),
            fill("Name, e-mail or team", person["email"]),
            button("Find people"),
            link(person["name"]),
        ]
    other_week = date.fromisoformat(on) > week_of(date.fromisoformat(scene.today))[-1]
    steps += [link("Next week")] if other_week else []
    name = counts[-1][1]
    return WebDraft(
        [*steps, answer(name)],
        {"day": spoken(on), "names": names_of(people), "any_of": names_of(people, "or")},
        answer=name,
    )


@family(
    "calendar.answer",
    1,
    "{verb} the invitation to “{title}” on {day}.",
    "I was invited to “{title}” on {day}. {verb} that invitation.",
    "Please answer the invitation to “{title}” ({day}): {do} it.",
)
def answer_one(scene: WebScene) -> WebDraft:
    """Accept or decline one invitation."""
    booking = pick_booking(scene, _OPEN, me(scene))
    verb, value = scene.choice((("Accept", "yes"), ("Decline", "no")))
    return WebDraft(
        [*open_booking(booking), button(verb)],
        {"verb": verb, "do": verb.lower(), "title": booking["title"], "day": spoken(booking["day"])},
        [_answering(booking["id"], me(scene), value)],
        checks=[exists("answered", _ANSWERED, booking["id"], me(scene), value)],
    )


@family(
    "calendar.decline_day",
    3,
    "I am away on {day}. Decline every invitation for that day that I have not answered yet.",
    "Say no to all open invitations for {day}, and leave other days alone.",
    "I cannot make it to anything on {day}. Decline all invitations for that day that are still unanswered, "
    "and only those.",
)
def decline_day(scene: WebScene) -> WebDraft:
    """Answer several invitations."""
    on = scene.pick(
        f"SELECT day FROM bookings b WHERE day >= ? AND {_OPEN} GROUP BY day HAVING count(*) > 1",
        scene.today,
        me(scene),
    )["day"]
    rows = scene.rows(f"{LIST} WHERE b.day >= ? AND {_OPEN} ORDER BY b.day, b.starts, b.id", scene.today, me(scene))
    rows_on_day = [row for row in rows if row["day"] == on]
    scene.need(rows.index(rows_on_day[-1]) < _PAGE)
    return WebDraft(
        [link("Invitations"), *(button(f"Decline {called(row)}") for row in rows_on_day)],
        {"day": spoken(on)},
        [_answering(row["id"], me(scene), "no") for row in rows_on_day],
        checks=[exists(called(row), _ANSWERED, row["id"], me(scene), "no") for row in rows_on_day],
    )


@family(
    "calendar.clash",
    4,
    "Answer the invitation to “{title}” on {day}: decline it if it overlaps with anything else in my calendar that "
    "day that I organise or have accepted; otherwise accept it.",
    "Can I come to “{title}” on {day}? Accept the invitation if nothing that I organise or have accepted overlaps "
    "with it, else decline it.",
    "I have an invitation to “{title}” on {day}. If it clashes with something that day that I organise or "
    "have accepted, decline it. If not, accept it.",
)
def clash(scene: WebScene) -> WebDraft:
    """Look at the day, then decide."""
    booking = pick_booking(scene, _OPEN, me(scene))
    fixed = "b.organiser = ? OR b.id IN (SELECT booking FROM attendees WHERE person = ? AND answer = 'yes')"
    others = scene.rows(f"{LIST} WHERE b.day = ? AND ({fixed})", booking["day"], me(scene), me(scene))
    spans = [(minutes(row["starts"]), minutes(row["ends"])) for row in others]
    scene.need(others)
    verb, value = ("Accept", "yes") if is_free(spans, booking["starts"], booking["ends"]) else ("Decline", "no")
    # Clashes are rarer than free times; without this, always accepting would nearly always be right.
    scene.need(value == "no" or scene.rng.random() < 0.35)
    return WebDraft(
        [*open_booking(booking), button(verb)],
        {"title": booking["title"], "day": spoken(booking["day"])},
        [_answering(booking["id"], me(scene), value)],
        checks=[exists("answered rightly", _ANSWERED, booking["id"], me(scene), value)],
    )


def _answering(booking: int, person: int, value: str) -> tuple[str, list]:
    return "UPDATE attendees SET answer = ? WHERE booking = ? AND person = ?", [value, booking, person]
