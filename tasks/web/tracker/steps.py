"""Helpers of the tracker's families: steps for its pages, queries for issues, and SQL for changes of status."""

from __future__ import annotations

import sqlite3

from agentgym.tasks.web.family import Change, Step, WebScene
from agentgym.tasks.web.plan import button, fill, link
from agentgym.tasks.web.sites.tracker.fill import CLOSED
from agentgym.tasks.web.sites.tracker.listing import ISSUES

ME = "(SELECT person_id FROM me)"
NOW = "(SELECT now FROM clock)"
SENTENCES = (
    "I can reproduce this on two machines.",
    "Fixed in the branch; please review.",
    "Waiting for the customer's answer…",
    "Let's talk about it on Monday.",
    "Das betrifft auch die alte Version.",
    'The log says "timeout after 30 s".',
)


def issues(scene: WebScene, condition: str = "1", *params: object) -> list[sqlite3.Row]:
    """Return issues as the tracker's lists show them."""
    return scene.rows(f"SELECT * FROM ({ISSUES}) AS found WHERE {condition} ORDER BY id", *params)


def open_issue(name: str) -> list[Step]:
    """Find an issue by its number and open it."""
    return [fill("Search issues", name, "searchbox"), button("Search"), link(name)]


def status_change(issue: int, status: str) -> Change:
    """Return the changes that a new status of an issue makes to the database."""
    closed = f"coalesce(closed_at, {NOW})" if status in CLOSED else "NULL"
    return f"UPDATE issue SET status = ?, closed_at = {closed}, duplicate_of = NULL WHERE id = ?", [status, issue]


def comment_change(issue: int, body: str) -> Change:
    """Return the changes that a comment makes to the database."""
    return f"INSERT INTO comment (issue_id, author_id, body, written_at) VALUES (?, {ME}, ?, {NOW})", [issue, body]


def marks(values: list[int]) -> str:
    """Return one question mark for each value."""
    return ", ".join("?" * len(values))
