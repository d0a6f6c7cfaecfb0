"""Bundled sites: each is a name, a database schema, a function that fills it for a seed, and routes.

This module needs only the standard library, so tasks can be generated where no web server is installed.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.tasks.web.sites.words import SiteWords


@dataclass(frozen=True)
class SiteReply:
    """The answer of a page: HTML, or an address to go to next."""

    body: str = ""
    status: int = 200
    location: str | None = None
    notice: str | None = None
    """Shown once, on the next page."""


Handler = Callable[..., SiteReply]
"""A page: called with the `Visit` and the path's parameters by name."""

SITE_MODULES = {
    "shop": "agentgym.tasks.web.sites.shop",
    "forum": "agentgym.tasks.web.sites.forum",
    "tracker": "agentgym.tasks.web.sites.tracker",
    "mail": "agentgym.tasks.web.sites.mail.site",
    "admin": "agentgym.tasks.web.sites.admin",
    "calendar": "agentgym.tasks.web.sites.calendar.site",
}
"""The module of each site, which defines it as `SITE`."""
_EPOCH = datetime(2025, 1, 6, 9, 0)
_PARAMETER = re.compile(r"\{(\w+)(?::(int|text))?\}")
_PATTERNS = {"int": r"[0-9]{1,9}", "text": r"[^/]{1,100}"}


@dataclass(frozen=True)
class Route:
    """One page of a site: a method, a path such as `/issue/{number:int}`, and the function that answers."""

    method: str
    path: str
    handler: Handler

    def __post_init__(self) -> None:
        kinds: dict[str, str] = {}

        def group(match: re.Match[str]) -> str:
            kinds[match[1]] = match[2] or "text"
            return f"(?P<{match[1]}>{_PATTERNS[kinds[match[1]]]})"

        object.__setattr__(self, "_pattern", re.compile(_PARAMETER.sub(group, self.path)))
        object.__setattr__(self, "_kinds", kinds)

    def match(self, path: str) -> dict[str, Any] | None:
        """Return the parameters that this route finds in `path`, or `None` if the path does not match."""
        match = self._pattern.fullmatch(path)  # type: ignore[attr-defined]
        if match is None:
            return None
        kinds = self._kinds  # type: ignore[attr-defined]
        return {key: int(value) if kinds[key] == "int" else value for key, value in match.groupdict().items()}


class Routes(list[Route]):
    """The pages of a site, filled by its decorators; their paths are tried in that order."""

    def get(self, path: str) -> Callable[[Handler], Handler]:
        """Make the decorated function the page at `path`."""
        return self._add("GET", path)

    def post(self, path: str) -> Callable[[Handler], Handler]:
        """Make the decorated function the handler of forms sent to `path`."""
        return self._add("POST", path)

    def _add(self, method: str, path: str) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            self.append(Route(method, path, handler))
            return handler

        return register


@dataclass(frozen=True)
class Build:
    """The argument of `Site.fill`: the empty database and everything that its content may depend on."""

    db: sqlite3.Connection
    seed: int
    rng: Random
    now: datetime
    """The episode's clock, which stands still. Also in the database: `SELECT now FROM clock`."""
    words: SiteWords
    """Names of people and places; sites of different splits share none."""
    options: Mapping[str, Any] = field(default_factory=dict)

    def insert(self, table: str, **values: Any) -> int:
        """Insert one row and return its id."""
        names = ", ".join(values)
        marks = ", ".join("?" * len(values))
        cursor = self.db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(values.values()))
        return cursor.lastrowid or 0

    def before(self, days: float, spread: float = 0.0) -> str:
        """Return a moment `days` before now (give or take `spread`), as text, to the minute."""
        moment = self.now - timedelta(days=max(days + self.rng.uniform(-spread, spread), 0.01))
        return moment.strftime("%Y-%m-%d %H:%M")

    def day(self, days: int) -> str:
        """Return the date a number of days after now (before, if negative), as text."""
        return (self.now + timedelta(days=days)).strftime("%Y-%m-%d")


@dataclass(frozen=True)
class Site:
    """One site. Its state is a function of (seed, options) and of the forms that were sent to it.

    Use natural keys where the order of actions must not matter (a cart's lines), and plain `INTEGER PRIMARY KEY`
    elsewhere, so that undoing an action and doing it right leads to the same ids.
    """

    name: str
    title: str
    fill: Callable[[Build], None]
    routes: Routes
    context: Callable[[Any], Mapping[str, Any]] = lambda visit: {}
    """Returns what every template gets from the `Visit` besides its own context: navigation, the user, counters."""
    volatile: frozenset[str] = frozenset()
    """Tables (`recent`) and columns (`message.seen_at`) that are not part of the state."""

    @property
    def host(self) -> str:
        """The host name that browsers request."""
        return f"{self.name}.test"

    @property
    def schema(self) -> str:
        """The SQL that creates the tables."""
        return (Path(__file__).parent / self.name / "data" / "schema.sql").read_text(encoding="utf-8")


def clock_of(seed: int) -> datetime:
    """Return the time of the clock of sites with this seed: a working day, in working hours."""
    rng = Random(f"sites/clock/{seed}")
    day = _EPOCH + timedelta(weeks=rng.randrange(100), days=rng.randrange(5))
    return day + timedelta(minutes=rng.randrange(0, 480))


def find_site(name: str) -> Site:
    """Return the bundled site called `name`."""
    if name not in SITE_MODULES:
        raise UsageError(f"unknown site {name!r}; choose from: {', '.join(SITE_MODULES)}")
    return import_module(SITE_MODULES[name]).SITE


def build_database(site: Site, seed: int, options: Mapping[str, Any] | None = None) -> sqlite3.Connection:
    """Create the site's initial database for a seed, in memory."""
    db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    db.execute("PRAGMA foreign_keys = ON")
    now = clock_of(seed)
    db.execute("BEGIN")
    for statement in filter(None, map(str.strip, site.schema.split(";"))):
        db.execute(statement)
    db.execute("CREATE TABLE clock (now TEXT NOT NULL)")
    db.execute("INSERT INTO clock VALUES (?)", (now.strftime("%Y-%m-%d %H:%M"),))
    rng = Random(f"sites/{site.name}/{seed}")
    site.fill(Build(db, seed, rng, now, SiteWords(seed, rng), dict(options or {})))
    db.execute("COMMIT")
    return db
