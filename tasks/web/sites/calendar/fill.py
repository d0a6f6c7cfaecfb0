"""The calendar at the start of an episode of the calendar site: its tables, and how a seed fills them."""

from __future__ import annotations

from datetime import date, timedelta

from agentgym.tasks.web.sites.calendar.store import CLOSES, OPENS, STEP, clock, is_working_day, next_working_day
from agentgym.tasks.web.sites.office import draw_contacts, skewed
from agentgym.tasks.web.sites.site import Build

TEAMS = ("Sales", "Design", "Finance", "Support", "Engineering")
REPEATS = {"once": "Once", "day": "Every working day", "week": "Every week", "fortnight": "Every two weeks"}
ROOM_NAMES = (
    "Amsterdam", "Atlas", "Aurora", "Berlin", "Bern", "Blue room", "Blue lounge", "Café corner", "Cockpit", "Delta",
    "Garden room", "Harbour", "Library", "Lisbon", "Map room", "Müller hall", "North star", "Workshop A", "Workshop B",
    "Zürich",
)  # fmt: skip
TITLES = (
    "Budget review", "Budget preview", "Design review", "Design critique", "Customer call", "Customer workshop",
    "Handover", "Interview", "Kick-off", "Planning", "Pricing", "Project review", "Q&A session", "Release check",
    "Retrospective", "Risk review", "Roadmap", "Security training", "Supplier meeting", "Team lunch",
    "The “beta” test", "Training", "Vendor demo", "Website relaunch", "Year-end planning",
)  # fmt: skip
SERIES_TITLES = ("Weekly sync", "Stand-up", "Reading group", "Jour fixe", "Office hours", "Book club", "Sales forecast")
_PEOPLE, _ROOMS, _SINGLE, _DAYS_BEFORE, _DAYS_AFTER = 22, 9, 240, 4, 19
_NOTES = (
    "",
    "",
    "",
    "Bring the figures.",
    "Agenda: see “handbook”.",
    "Coffee & cake!",
    "Dial-in for remote colleagues.",
)


def fill_calendar(build: Build) -> None:
    """Fill an empty calendar."""
    rng = build.rng
    for person in draw_contacts(build.words, rng, _PEOPLE, ("office.test",)):
        build.insert("people", name=person.name, email=person.address, team=rng.choice(TEAMS))
    build.insert("account", person=1)
    for name, seats in zip(rng.sample(ROOM_NAMES, _ROOMS), rng.sample(range(3, 26), _ROOMS), strict=True):
        screen = rng.random() < 0.6
        video = screen and rng.random() < 0.6
        build.insert("rooms", name=name, floor=rng.randrange(0, 4), seats=seats, screen=int(screen), video=int(video))
    _Planner(build).fill()


class _Planner:
    """Books rooms so that no room is taken twice and no two bookings of a day share a title."""

    def __init__(self, build: Build):
        self._build, self._rng, self._today = build, build.rng, build.now.date()
        self._seats = dict(build.db.execute("SELECT id, seats FROM rooms ORDER BY id").fetchall())
        self._taken: dict[tuple[int, date], list[tuple[int, int]]] = {}
        self._titles: set[tuple[str, date]] = set()

    def fill(self) -> None:
        """Plan the series, then the single bookings."""
        for title in self._rng.sample(SERIES_TITLES, 5):
            self._plan_series(title)
        titles = skewed(self._rng, self._rng.sample(TITLES, len(TITLES)), _SINGLE, 0.4)
        for title in titles:
            day = self._today + timedelta(days=self._rng.randrange(-_DAYS_BEFORE, _DAYS_AFTER))
            if is_working_day(day):
                self._plan(title, day)

    def _plan_series(self, title: str) -> None:
        every, times = self._rng.choice((("week", 6), ("fortnight", 4), ("week", 5)))
        first = next_working_day(self._today + timedelta(days=self._rng.randrange(-6, 4)))
        days = [first + timedelta(days=(7 if every == "week" else 14) * number) for number in range(times)]
        room, start, length = self._rng.choice(list(self._seats)), self._start(), self._rng.choice((30, 60))
        if any(not self._free(room, day, start, start + length) for day in days):
            return
        series = self._build.insert("series", every=every, times=times)
        organiser, people = self._group(room)
        for day in days:
            self._book(title, room, day, start, start + length, organiser, people, "", series)

    def _plan(self, title: str, day: date) -> None:
        room, start, length = (
            self._rng.choice(list(self._seats)),
            self._start(),
            self._rng.choice((30, 45, 60, 60, 90, 120)),
        )
        end = min(start + length, CLOSES)
        if (title, day) in self._titles or not self._free(room, day, start, end):
            return
        organiser, people = self._group(room)
        self._book(title, room, day, start, end, organiser, people, self._rng.choice(_NOTES), None)

    def _start(self) -> int:
        return self._rng.randrange(OPENS, CLOSES - 30, STEP * 2)

    def _free(self, room: int, day: date, start: int, end: int) -> bool:
        return all(end <= begins or start >= stops for begins, stops in self._taken.get((room, day), []))

    def _group(self, room: int) -> tuple[int, list[int]]:
        most = min(self._seats[room] - 1, 6)
        # Person 1 is the visitor, whose calendar is the fullest.
        people = [1] if self._rng.random() < 0.55 else []
        people += self._rng.sample(range(2, _PEOPLE + 1), self._rng.randrange(1, most))
        organiser = self._rng.choice(people)
        return organiser, sorted(set(people) - {organiser})

    def _book(
        self, title: str, room: int, day: date, start: int, end: int, organiser: int, people: list[int], note: str,
        series: int | None,
    ) -> None:  # fmt: skip
        self._taken.setdefault((room, day), []).append((start, end))
        self._titles.add((title, day))
        times = {"day": str(day), "starts": clock(start), "ends": clock(end)}
        number = self._build.insert(
            "bookings", title=title, room=room, organiser=organiser, **times, note=note, series=series
        )
        for person in people:
            answer = (
                "open" if day >= self._today and self._rng.random() < 0.35 else self._rng.choice(("yes", "yes", "no"))
            )
            self._build.insert("attendees", booking=number, person=person, answer=answer)
