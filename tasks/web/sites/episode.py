"""One episode's copy of a site: an in-memory database that starts as the seed defines and changes with every form."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from agentgym.base.errors import TaskError
from agentgym.tasks.web.sites.site import Site, build_database

EPISODE_HEADER = "x-agentgym-episode"
"""Request header that names the episode that a request belongs to."""
Change = tuple[str, Sequence[Any]]
"""One SQL statement and its parameters."""
_TEMPLATES_KEPT = 64
_PAGES_MOST = 8192
"""Limit on an episode's database in pages of 4 KiB, so that no policy can fill the memory."""

_templates: OrderedDict[tuple[str, int, str], sqlite3.Connection] = OrderedDict()
_lock = threading.Lock()


def new_database(site: Site, seed: int, options: Mapping[str, Any] | None = None) -> sqlite3.Connection:
    """Return a fresh copy of the site's initial database, which is built once per process."""
    key = (site.name, seed, json.dumps(options or {}, sort_keys=True))
    db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    with _lock:
        if key not in _templates:
            _templates[key] = build_database(site, seed, options)
            if len(_templates) > _TEMPLATES_KEPT:
                _templates.popitem(last=False)[1].close()
        _templates.move_to_end(key)
        _templates[key].backup(db)
    db.row_factory = sqlite3.Row
    db.execute("PRAGMA foreign_keys = ON")
    db.execute(f"PRAGMA max_page_count = {_PAGES_MOST}")
    return db


class SiteState:
    """The database of one episode of a site, with the digest that decides whether two states are equal."""

    def __init__(self, site: Site, seed: int, options: Mapping[str, Any] | None = None):
        self.site, self.seed, self.options = site, seed, dict(options or {})
        self.lock = threading.RLock()
        self._db = new_database(site, seed, options)
        self.now = datetime.strptime(self.query("SELECT now FROM clock")[0][0], "%Y-%m-%d %H:%M")

    @property
    def connection(self) -> sqlite3.Connection:
        """The database itself; use it inside `transaction()`."""
        return self._db

    def query(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        with self.lock:
            return [tuple(row) for row in self._db.execute(sql, params)]

    def apply(self, changes: Iterable[Change]) -> None:
        """Run statements, all or none: the effect of a task's solution on the state."""
        with self.transaction() as db:
            for sql, params in changes:
                try:
                    db.execute(sql, params)
                except sqlite3.Error as error:
                    where = f"site {self.site.name!r}, seed {self.seed}"
                    raise TaskError(f"{where}: cannot apply {sql!r} with {list(params)!r}: {error}") from error

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection to one request at a time; an exception rolls its changes back."""
        with self.lock:
            self._db.execute("BEGIN")
            try:
                yield self._db
            except BaseException:
                # After running out of space, SQLite has already rolled back.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return the rows of every table in a fixed order, without what the site declares volatile."""
        with self.lock:
            named = self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
            return {name: self._rows(name) for (name,) in named if name not in self.site.volatile}

    def _rows(self, table: str) -> list[tuple[Any, ...]]:
        info = self._db.execute(f'PRAGMA table_info("{table}")').fetchall()
        names = [row["name"] for row in sorted(info, key=lambda row: (row["pk"] == 0, row["pk"], row["cid"]))]
        columns = ", ".join(f'"{name}"' for name in names if f"{table}.{name}" not in self.site.volatile)
        return [tuple(row) for row in self._db.execute(f'SELECT {columns} FROM "{table}" ORDER BY {columns}')]

    def digest(self) -> str:
        """Return a hash of `dump()`: equal states have equal digests."""
        return hashlib.sha256(repr(self.dump()).encode()).hexdigest()

    def close(self) -> None:
        """Free the database."""
        with self.lock:
            self._db.close()


class SiteEpisode(SiteState):
    """One episode of a site that a browser can visit: send `headers` with each request."""

    def __init__(
        self,
        token: str,
        site: Site,
        seed: int,
        options: Mapping[str, Any] | None = None,
        forget: Callable[[str], None] = lambda token: None,
    ):
        super().__init__(site, seed, options)
        self.token, self._forget = token, forget
        self.notice: str | None = None
        """A message that the next page shows once, such as "Saved."."""
        self.broken: str | None = None
        """The request that hit a bug of the site, and the error; the episode is then void."""

    @property
    def url(self) -> str:
        """Address of the site for a browser that maps `*.test` to the server's port."""
        return f"http://{self.site.host}/"

    @property
    def headers(self) -> dict[str, str]:
        """The headers that a client must send with each request."""
        return {EPISODE_HEADER: self.token}

    def close(self) -> None:
        """End the episode: its pages are gone and its database is freed."""
        self._forget(self.token)
        super().close()


def digest_after(site: Site, seed: int, effect: Iterable[Change], options: Mapping[str, Any] | None = None) -> str:
    """Return the digest of the initial state with `effect` applied: the state that a task asks for."""
    state = SiteState(site, seed, options)
    try:
        state.apply(effect)
        return state.digest()
    finally:
        state.close()
