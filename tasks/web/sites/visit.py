"""A request to a page of a site (`Visit`); pages return a `SiteReply` or raise a `PageProblem`."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from agentgym.tasks.web.sites.forms import SiteForm
from agentgym.tasks.web.sites.pages import render
from agentgym.tasks.web.sites.site import Site, SiteReply

PAGE_SIZE = 10


class PageProblem(Exception):
    """The request is refused: the visitor gets an error page, and nothing is changed."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status, self.message = status, message


@dataclass(frozen=True)
class Pager:
    """One page of a long list."""

    rows: Sequence[Any]
    number: int
    """Number of this page, from 1."""
    pages: int
    total: int


@dataclass(frozen=True)
class Visit:
    """One request to a site, with the episode's database: all the input of a page handler."""

    site: Site
    db: sqlite3.Connection
    now: datetime
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the address; the values of a repeated one are joined by commas."""
    form: SiteForm = field(default_factory=SiteForm)
    notice: str | None = None

    def rows(self, sql: str, *params: Any) -> list[sqlite3.Row]:
        """Return all rows of a query."""
        return self.db.execute(sql, params).fetchall()

    def row(self, sql: str, *params: Any) -> sqlite3.Row | None:
        """Return the first row of a query, or `None`."""
        return self.db.execute(sql, params).fetchone()

    def value(self, sql: str, *params: Any) -> Any:
        """Return the first column of the first row of a query, or `None`."""
        row = self.row(sql, *params)
        return None if row is None else row[0]

    def find(self, what: str, sql: str, *params: Any) -> sqlite3.Row:
        """Return the first row of a query; without rows, end the visit with the page `404 No such <what>`."""
        row = self.row(sql, *params)
        if row is None:
            raise PageProblem(404, f"There is no such {what}.")
        return row

    def run(self, sql: str, *params: Any) -> int:
        """Change the database; return the new row's id."""
        return self.db.execute(sql, params).lastrowid or 0

    @property
    def stamp(self) -> str:
        """The time of the episode's clock, as it is stored."""
        return self.now.strftime("%Y-%m-%d %H:%M")

    def page(self, template: str, status: int = 200, **context: Any) -> SiteReply:
        """Render a template of `data/`. `visit`, `site`, `form`, `notice` and `now` are available in every template."""
        shared = {"visit": self, "site": self.site, "form": self.form, "notice": self.notice, "now": self.now}
        return SiteReply(render(template, {**shared, **self.site.context(self), **context}), status)

    def redirect(self, path: str, notice: str | None = None) -> SiteReply:
        """Redirect the browser to another page of the site, which shows `notice`."""
        return SiteReply(status=303, location=path, notice=notice)

    def url(self, **changes: Any) -> str:
        """Return this page's address with some query parameters changed; `None` and "" remove one."""
        query = {key: value for key, value in {**self.query, **changes}.items() if value not in (None, "")}
        return f"{self.path}?{urlencode(query)}" if query else self.path

    def pager(self, rows: Sequence[Any], size: int = PAGE_SIZE) -> Pager:
        """Cut a list to the page that the query parameter `page` asks for (the nearest existing one)."""
        pages = max(1, -(-len(rows) // size))
        text = self.query.get("page", "1")
        number = min(max(int(text), 1), pages) if text.isascii() and text.isdecimal() and len(text) < 9 else 1
        return Pager(rows[(number - 1) * size : number * size], number, pages, len(rows))
