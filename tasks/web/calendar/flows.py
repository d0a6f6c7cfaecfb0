"""Families of the calendar site: choosing among rooms and times, and changing several bookings."""

from __future__ import annotations

from datetime import date, timedelta

from agentgym.tasks.web.calendar.steps import (
    BOOKED,
    LIST,
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
    person_taken,
    pick_booking,
    pick_people,
    room_taken,
    some_time,
    spoken,
)
from agentgym.tasks.web.checks import check, exists
from agentgym.tasks.web.family import IMPOSSIBLE, WebDraft, WebScene, family
from agentgym.tasks.web.plan import accept, answer, button, fill, link, select
from agentgym.tasks.web.sites.calendar.store import clock, free_spans, minutes, next_working_day


@family(
    "calendar.smallest_room",
    4,
    "Book the smallest room (by seats) that has {what}, at least {seats} seats, and is free on {day} from {starts} to "
    "{ends}. Title: “{title}”",
    "For “{title}” on {day}, {starts} to {ends}, I need a room with {what} for {seats} people. Take the one with the "
    "fewest seats that is large enough and free.",
    "I am planning “{title}” on {day} from {starts} to {ends}. Of the rooms with {what} and at least {seats} "
    "seats that are free then, book the one with the fewest seats.",
)
def smallest_room(scene: WebScene) -> WebDraft:
    """Choose a room by its features and free times."""
    on, (starts, ends), least = scene.choice(coming_days(scene)), some_time(scene, (60, 90)), scene.rng.randrange(3, 12)
    feature, what = scene.choice((("screen", "a screen"), ("video", "video calls")))
    rooms = scene.rows(f"SELECT * FROM rooms WHERE seats >= ? AND {feature} ORDER BY seats", least)
    free = [room for room in rooms if is_free(room_taken(scene, room["id"], on), starts, ends)]
    scene.need(free and len(rooms) > 1)
    room, title = free[0], scene.choice(TITLES)
    looking = look_for_slots(on, minutes(ends) - minutes(starts), seats=least)
    words = {"what": what, "seats": least, "day": spoken(on), "starts": starts, "ends": ends, "title": title}
    return WebDraft(
        [*looking, *book(title, room["name"], on, starts, ends), button("Save booking")],
        words,
        [booked(scene, title, room["id"], on, starts, ends)],
        checks=[exists("booked", BOOKED, title, room["id"], on, starts)],
    )


@family(
    "calendar.cancel_rest",
    4,
    "Cancel my repeated booking “{title}” from {day} on: that one and all later ones. Earlier ones stay.",
    "The series “{title}” ends before {day}. I organise it; cancel what is booked on that day and after it.",
    "Please end my series “{title}”: cancel the booking on {day} and everything in the series after it, but "
    "leave the earlier ones.",
)
def cancel_rest(scene: WebScene) -> WebDraft:
    """Cancel the rest of a series."""
    own = scene.pick(f"{LIST} WHERE b.organiser = ? AND b.series IS NOT NULL AND b.day > ?", me(scene), scene.today)
    scene.only("SELECT DISTINCT series FROM bookings WHERE title = ?", own["title"])
    later = scene.rows("SELECT * FROM bookings WHERE series = ? AND day >= ?", own["series"], own["day"])
    scene.need(len(later) > 1)
    return WebDraft(
        [*open_booking(own), accept(), button("Cancel this and all later ones")],
        {"title": own["title"], "day": spoken(own["day"])},
        [("DELETE FROM bookings WHERE series = ? AND day >= ?", [own["series"], own["day"]])],
        checks=[
            check(
                "rest cancelled",
                "SELECT count(*) = 0 FROM bookings WHERE series = ? AND day >= ?",
                own["series"],
                own["day"],
            )
        ],
    )


@family(
    "calendar.shift_day",
    5,
    "I am away on {day}. Move everything that I organise on that day to {new_day}, at the same times and in the same "
    "rooms.",
    "All bookings of {day} that I organise must take place on {new_day} instead; times and rooms stay.",
    "Everything that I organise on {day} has to move to {new_day}. Keep the times and the rooms.",
)
def shift_day(scene: WebScene) -> WebDraft:
    """Move several bookings."""
    on = scene.pick(
        "SELECT day FROM bookings WHERE organiser = ? AND day > ? GROUP BY day HAVING count(*) BETWEEN 2 AND 3",
        me(scene),
        scene.today,
    )["day"]
    own = scene.rows(f"{LIST} WHERE b.organiser = ? AND b.day = ? ORDER BY b.starts", me(scene), on)
    new = str(next_working_day(date.fromisoformat(on) + timedelta(days=scene.rng.randrange(1, 8))))
    scene.need(len({row["title"] for row in own}) == len(own))
    scene.need(all(is_free(room_taken(scene, row["room"], new), row["starts"], row["ends"]) for row in own))
    steps = []
    for row in own:
        steps += [*open_booking(row), link("Change booking"), fill("Day", new), button("Save booking")]
    return WebDraft(
        steps,
        {"day": spoken(on), "new_day": spoken(new)},
        [("UPDATE bookings SET day = ? WHERE id = ?", [new, row["id"]]) for row in own],
        checks=[exists(row["title"], "bookings WHERE id = ? AND day = ?", row["id"], new) for row in own],
    )


@family(
    "calendar.common_slot",
    5,
    "Find the earliest time on {day} at which the room {room}, {all_of_us} are all free for {length} minutes. Book "
    "it for “{title}” and invite {names}. Bookings that somebody has declined do not count for that person. If there "
    "is no such time, change nothing and answer “impossible”.",
    "{all_of_us} need {length} minutes together in {room} on {day}, as early as possible, when none of us has "
    "anything else, apart from what we have declined. Book that as “{title}” with all of us. If it cannot be done, "
    "change nothing and answer “impossible”.",
    "Please set up “{title}” on {day} in {room}, with {names} as guests. It takes {length} minutes; choose "
    "the earliest start at which the room, the guests and I are all free (bookings that one of us has declined do not "
    "count for that person). If there is none, change nothing and answer “impossible”.",
)
def common_slot(scene: WebScene) -> WebDraft:
    """Book the first slot that suits everybody."""
    on, people = scene.choice(coming_days(scene)), pick_people(scene, 2)
    room, length = scene.pick("SELECT * FROM rooms WHERE seats > 3"), scene.choice((60, 90, 120, 180, 240))
    busy = room_taken(scene, room["id"], on)
    busy += [
        span for person in (me(scene), *(guest["id"] for guest in people)) for span in person_taken(scene, person, on)
    ]
    title, names = scene.choice(TITLES), ", ".join(person["name"] for person in people)
    own = scene.value("SELECT name FROM people WHERE id = ?", me(scene))
    looking = look_for_slots(on, length, f"{own}, {names}")
    words = {"day": spoken(on), "room": room["name"], "names": names_of(people), "length": length, "title": title}
    words["all_of_us"] = names_of(people, "and", "I")
    spans = free_spans(busy, length)
    if not spans:
        return WebDraft([*looking, answer(IMPOSSIBLE)], words, answer=IMPOSSIBLE)
    # A day that is free from the morning on makes the task trivial.
    scene.need(spans[0][0] > 8 * 60)
    starts, ends = clock(spans[0][0]), clock(spans[0][0] + length)
    return WebDraft(
        [*looking, *book(title, room["name"], on, starts, ends, names), button("Save booking")],
        words,
        [booked(scene, title, room["id"], on, starts, ends), *invited(people)],
        checks=[exists("booked", BOOKED, title, room["id"], on, starts)],
    )


@family(
    "calendar.larger_room",
    5,
    "Invite the whole team {team} to my booking “{title}” on {day}; others stay invited. If its room has too few "
    "seats for everybody who is then invited (those who have declined and me included), move it to the room with the "
    "fewest seats that is large enough and free at that time.",
    "Everybody of {team} should come to “{title}” on {day}, which I organise, besides those who are invited already. "
    "Should the room be too small for me and everyone invited, even if they have declined, change it to the smallest "
    "one (by seats) that is free then and has enough seats.",
    "My booking “{title}” on {day} is now for the whole team {team} as well: invite all of them and keep the "
    "others. If the room does not have a seat for everyone (me and those who have declined included), switch to the "
    "room with the fewest seats that is big enough and free at that time.",
)
def larger_room(scene: WebScene) -> WebDraft:
    """Invite many people, and change the room if necessary."""
    booking = pick_booking(scene, "b.organiser = ?", me(scene))
    team = scene.pick("SELECT team FROM people")["team"]
    present = {row[0] for row in scene.rows("SELECT person FROM attendees WHERE booking = ?", booking["id"])}
    members = scene.rows("SELECT * FROM people WHERE team = ? AND id <> ? ORDER BY id", team, me(scene))
    added = [person for person in members if person["id"] not in present]
    scene.need(added)
    total = 1 + len(present) + len(added)
    rooms = scene.rows("SELECT * FROM rooms WHERE seats >= ? ORDER BY seats", total)
    free = [
        room
        for room in rooms
        if is_free(room_taken(scene, room["id"], booking["day"], booking["id"]), booking["starts"], booking["ends"])
    ]
    moves = total > booking["seats"]
    scene.need(free and (moves or scene.rng.random() < 0.3))
    room = free[0] if moves else scene.one("SELECT * FROM rooms WHERE id = ?", booking["room"])
    everybody = scene.rows("SELECT * FROM people WHERE id <> ? ORDER BY name", me(scene))
    coming = present | {person["id"] for person in added}
    names = ", ".join(person["name"] for person in everybody if person["id"] in coming)
    steps = [link("Change booking"), fill("People", names), *([select("Room", room["name"])] if moves else [])]
    return WebDraft(
        [*open_booking(booking), *steps, button("Save booking")],
        {"team": team, "title": booking["title"], "day": spoken(booking["day"])},
        [*invited(added, booking["id"]), ("UPDATE bookings SET room = ? WHERE id = ?", [room["id"], booking["id"]])],
        checks=[
            check("team invited", f"SELECT count(*) = {len(coming)} FROM attendees WHERE booking = ?", booking["id"]),
            *(
                [exists("room changed", "bookings WHERE id = ? AND room = ?", booking["id"], room["id"])]
                if moves
                else []
            ),
        ],
    )
