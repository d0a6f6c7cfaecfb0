"""The tracker's lists: start page, issues with filters, saved filters, milestones."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from agentgym.tasks.web.sites.site import Routes, SiteReply
from agentgym.tasks.web.sites.tracker.fill import CLOSED, OPEN, PRIORITIES, STATUSES
from agentgym.tasks.web.sites.visit import PageProblem, Visit

routes = Routes()

_RANK = "CASE priority WHEN 'Critical' THEN 0 WHEN 'High' THEN 1 WHEN 'Medium' THEN 2 ELSE 3 END"
ISSUES = f"""
SELECT issue.*, project.key || '-' || number AS name, project.key AS key, assignee.name AS assignee,
    assignee.username AS assignee_username, reporter.name AS reporter, milestone.name AS milestone, {_RANK} AS urgency,
    (SELECT count(*) FROM comment WHERE issue_id = issue.id) AS comments,
    (SELECT group_concat(label.name, ', ') FROM issue_label JOIN label ON label.id = label_id
        WHERE issue_id = issue.id) AS labels
FROM issue JOIN project ON project.id = issue.project_id JOIN person AS reporter ON reporter.id = reporter_id
    LEFT JOIN person AS assignee ON assignee.id = assignee_id LEFT JOIN milestone ON milestone.id = milestone_id
"""
"""All issues with the columns that lists show; `name` is as in `ATLAS-12`."""
SORTS = {
    "new": ("Newest first", "created_at DESC, id DESC"),
    "old": ("Oldest first", "created_at, id"),
    "priority": ("Most urgent first", "urgency, id"),
    "due": ("Due date", "due_on IS NULL, due_on, id"),
    "comments": ("Most comments", "comments DESC, id"),
}
FILTERS = ("q", "project", "status", "priority", "assignee", "label", "milestone", "sort")


@routes.get("/")
def home(visit: Visit) -> SiteReply:
    """Show projects, one's own issues and saved filters."""
    mine = visit.rows(
        f"SELECT * FROM ({ISSUES}) WHERE closed_at IS NULL AND assignee_id = (SELECT person_id FROM me) "
        "ORDER BY urgency, id LIMIT 8"
    )
    counts = visit.rows("SELECT project_id, count(*) FROM issue WHERE closed_at IS NULL GROUP BY 1")
    return visit.page("tracker/home.html", mine=mine, counts={row[0]: row[1] for row in counts})


@routes.get("/issues")
def issues(visit: Visit) -> SiteReply:
    """List issues of all projects."""
    return issue_list(visit)


def issue_list(visit: Visit, status: int = 200) -> SiteReply:
    """Show the list of issues that match the visit's query, with the errors of its form."""
    conditions, values = _conditions(visit)
    order = SORTS.get(visit.query.get("sort", ""), SORTS["new"])[1]
    where = " AND ".join(conditions) or "1"
    # A search for ABC-1 means that issue, and not ABC-10 to ABC-19.
    order = f"lower(name) = lower(?) DESC, {order}"
    rows = visit.rows(
        f"SELECT * FROM ({ISSUES}) AS found WHERE {where} ORDER BY {order}", *values, visit.query.get("q", "")
    )
    project = visit.row("SELECT * FROM project WHERE key = ?", visit.query.get("project", ""))
    return visit.page(
        "tracker/list.html",
        status,
        pager=visit.pager(rows),
        project=project,
        query=_filter_query(visit.query),
        sorts=SORTS,
        **field_options(visit, project["id"] if project else None),
    )


def _filter_query(values: Mapping[str, str]) -> str:
    # A filter has one canonical form, however the visitor arrived at it.
    filters = {key: values[key] for key in FILTERS if values.get(key) and (key, values[key]) != ("sort", "new")}
    return urlencode(filters)


def field_options(visit: Visit, project_id: int | None, milestone_id: int | None = None) -> dict[str, Any]:
    """Return the choices in the fields of a project's issues; a closed milestone only if it is the issue's own."""
    milestones = "SELECT * FROM milestone WHERE (NOT closed OR id = ?) AND project_id = ? ORDER BY due_on, id"
    return {
        "people": visit.rows("SELECT * FROM person ORDER BY name"),
        "labels": visit.rows("SELECT * FROM label ORDER BY id"),
        "milestones": visit.rows(milestones, milestone_id, project_id),
        "statuses": STATUSES,
        "priorities": PRIORITIES,
    }


def _conditions(visit: Visit) -> tuple[list[str], list[Any]]:
    query = visit.query
    conditions: list[tuple[str, list[Any]]] = []
    for word in query.get("q", "").split()[:8]:
        conditions.append(("instr(lower(title || char(10) || name || char(10) || body), lower(?)) > 0", [word]))
    if query.get("project"):
        conditions.append(("key = ?", [query["project"]]))
    if query.get("status") in ("open", "closed"):
        statuses = OPEN if query["status"] == "open" else CLOSED
        conditions.append((f"status IN ({', '.join('?' * len(statuses))})", list(statuses)))
    elif query.get("status"):
        conditions.append(("status = ?", [query["status"]]))
    if query.get("priority"):
        conditions.append(("priority = ?", [query["priority"]]))
    if query.get("assignee") == "nobody":
        conditions.append(("assignee_id IS NULL", []))
    elif query.get("assignee"):
        conditions.append(("assignee_username = ?", [query["assignee"]]))
    if query.get("milestone"):
        conditions.append(("milestone = ?", [query["milestone"]]))
    if query.get("label"):
        labels = "SELECT issue_id FROM issue_label JOIN label ON label.id = label_id WHERE label.name = ?"
        conditions.append((f"id IN ({labels})", [query["label"]]))
    return [text for text, _ in conditions], [value for _, values in conditions for value in values]


@routes.post("/filters/new")
def save_filter(visit: Visit) -> SiteReply:
    """Save the filters of a list under a name."""
    name = visit.form.text("filter_name", most=60)
    query = _filter_query(dict(parse_qsl(visit.form.values.get("query", ""))))
    if visit.row("SELECT 1 FROM saved_filter WHERE name = ?", name):
        visit.form.error("filter_name", "You already have a filter with this name.")
    if not visit.form.ok:
        raise PageProblem(422, visit.form.errors["filter_name"])
    visit.run("INSERT INTO saved_filter (name, query) VALUES (?, ?)", name, query)
    return visit.redirect("/filters", f"The filter “{name}” was saved.")


@routes.get("/filters")
def filters(visit: Visit) -> SiteReply:
    """List the saved filters."""
    return visit.page("tracker/filters.html", filters=visit.rows("SELECT * FROM saved_filter ORDER BY id"))


@routes.post("/filters/{number:int}/delete")
def delete_filter(visit: Visit, number: int) -> SiteReply:
    """Delete a saved filter."""
    filter = visit.find("filter", "SELECT * FROM saved_filter WHERE id = ?", number)
    visit.run("DELETE FROM saved_filter WHERE id = ?", number)
    return visit.redirect("/filters", f"The filter “{filter['name']}” was deleted.")


@routes.get("/project/{key}/milestones")
def milestones(visit: Visit, key: str) -> SiteReply:
    """List the milestones of a project."""
    return milestone_page(visit, find_project(visit, key))


def find_project(visit: Visit, key: str) -> sqlite3.Row:
    """Return a project, or end the visit with a page that says that it does not exist."""
    return visit.find("project", "SELECT * FROM project WHERE key = ?", key)


def milestone_page(visit: Visit, project: sqlite3.Row, status: int = 200) -> SiteReply:
    """Show the milestones of a project, with the errors of the visit's form."""
    rows = visit.rows(
        "SELECT milestone.*, count(issue.id) AS issues, count(issue.closed_at) AS done FROM milestone "
        "LEFT JOIN issue ON milestone_id = milestone.id WHERE milestone.project_id = ? GROUP BY milestone.id ORDER "
        "BY due_on, "
        "milestone.id",
        project["id"],
    )
    return visit.page("tracker/milestones.html", status, project=project, milestones=rows)


@routes.post("/project/{key}/milestones")
def add_milestone(visit: Visit, key: str) -> SiteReply:
    """Add a milestone."""
    project = find_project(visit, key)
    name, due = visit.form.text("name", most=40), visit.form.date("due_on")
    if visit.row("SELECT 1 FROM milestone WHERE project_id = ? AND name = ?", project["id"], name):
        visit.form.error("name", "This project already has a milestone with this name.")
    if not visit.form.ok:
        return milestone_page(visit, project, 422)
    visit.run("INSERT INTO milestone (project_id, name, due_on, closed) VALUES (?, ?, ?, 0)", project["id"], name, due)
    return visit.redirect(f"/project/{key}/milestones", f"Milestone {name} was added.")


@routes.post("/project/{key}/milestones/{number:int}/close")
def close_milestone(visit: Visit, key: str, number: int) -> SiteReply:
    """Close a milestone whose issues are all closed."""
    find_project(visit, key)
    milestone = visit.find("milestone", "SELECT * FROM milestone WHERE id = ?", number)
    open_issues = visit.value("SELECT count(*) FROM issue WHERE milestone_id = ? AND closed_at IS NULL", number)
    if open_issues:
        message = f"Milestone {milestone['name']} cannot be closed: {open_issues} of its issues are still open."
        return visit.redirect(f"/project/{key}/milestones", message)
    visit.run("UPDATE milestone SET closed = 1 WHERE id = ?", number)
    return visit.redirect(f"/project/{key}/milestones", f"Milestone {milestone['name']} was closed.")
