"""Helpers for the tables of the admin site: filters, sorting by column, chosen rows, exports and the audit log."""

from __future__ import annotations

import csv
import io
import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from agentgym.tasks.web.sites.office import fold, same_site
from agentgym.tasks.web.sites.site import SiteReply
from agentgym.tasks.web.sites.visit import PageProblem, Visit

Row = sqlite3.Row
_EXPORTED = 15
"""Rows shown in the preview of an export."""


def filtered(visit: Visit, rows: Sequence[Row], searched: Sequence[str], exact: Sequence[str]) -> list[Row]:
    """Return the rows that match the query: its words in one of the columns `searched`, and each column of `exact`."""
    words = fold(visit.query.get("q", ""))
    filters = {name: visit.query[name] for name in exact if visit.query.get(name)}
    return [
        row
        for row in rows
        if any(words in fold(str(row[name])) for name in searched)
        and all(str(row[name]) == value for name, value in filters.items())
    ]


def ordered(visit: Visit, rows: Sequence[Row], columns: Mapping[str, str], default: str) -> list[Row]:
    """Return rows sorted as the query asks: by a column, descending if its name has a minus in front."""
    order = visit.query.get("sort", default)
    name = order.removeprefix("-")
    if name not in columns:
        order = name = default

    def key(row: Row) -> tuple[bool, object]:
        value = row[name]
        return value is None, fold(value) if isinstance(value, str) else value or 0

    return sorted(rows, key=key, reverse=order.startswith("-"))


def chosen_rows(visit: Visit, table: str) -> list[int]:
    """Return the ids of the rows that were ticked."""
    valid_ids = [str(row["id"]) for row in visit.rows(f"SELECT id FROM {table} ORDER BY id")]
    ids = [int(number) for number in visit.form.choices("row", valid_ids)]
    if not visit.form.ok:
        raise PageProblem(404, "One of the chosen rows does not exist.")
    return ids


def back_to(visit: Visit, list_path: str, notice: str) -> SiteReply:
    """Redirect to the list that sent a form, with its filters."""
    return visit.redirect(same_site(visit.form.values.get("back", ""), list_path), notice)


def export(
    visit: Visit, title: str, rows: Sequence[Row], columns: Sequence[str], total: int | None = None
) -> SiteReply:
    """Return a page that previews an export of these rows."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_written(name, row[name]) for name in columns] for row in rows[:_EXPORTED]])
    back = visit.path.removesuffix("/export")
    return visit.page(
        "admin/export.html",
        heading=title,
        count=len(rows),
        total=total,
        text=text.getvalue(),
        back=back,
        shown=min(len(rows), _EXPORTED),
    )


def _written(name: str, value: object) -> object:
    return f"{value / 100:.2f}" if name == "amount" and isinstance(value, int) else value


def pairs(values: Iterable[object]) -> list[tuple[str, str]]:
    """Return values as the options of a form's field, each labelled with itself."""
    return [(str(value), str(value)) for value in values]


def named(rows: Iterable[Row]) -> list[tuple[int, str]]:
    """Return rows as the options of a form's field, labelled with their names."""
    return [(row["id"], row["name"]) for row in rows]


def note(visit: Visit, entry: str) -> None:
    """Write a line into the audit log."""
    visit.run("INSERT INTO audit (at, entry) VALUES (?, ?)", visit.stamp, entry)
