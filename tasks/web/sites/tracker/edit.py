"""Creating and editing issues."""

from __future__ import annotations

import sqlite3
from typing import Any

from agentgym.tasks.web.sites.forms import SiteForm
from agentgym.tasks.web.sites.site import Routes, SiteReply
from agentgym.tasks.web.sites.tracker.fill import PRIORITIES, STATUSES
from agentgym.tasks.web.sites.tracker.issue import BODY_MOST, find_issue, set_status
from agentgym.tasks.web.sites.tracker.listing import ISSUES, field_options, find_project
from agentgym.tasks.web.sites.visit import PageProblem, Visit

routes = Routes()


@routes.get("/project/{key}/new")
def issue_form(visit: Visit, key: str) -> SiteReply:
    """Show the form for a new issue."""
    form = SiteForm.filled({"priority": "Medium", "status": "Open"})
    return _form_page(visit, find_project(visit, key), None, form, [])


def _form_page(
    visit: Visit, project: sqlite3.Row, issue: sqlite3.Row | None, form: SiteForm, labels: list[str], status: int = 200
) -> SiteReply:
    options = field_options(visit, project["id"], issue["milestone_id"] if issue else None)
    return visit.page("tracker/form.html", status, project=project, issue=issue, form=form, chosen=labels, **options)


@routes.post("/project/{key}/new")
def create(visit: Visit, key: str) -> SiteReply:
    """Create an issue."""
    project = find_project(visit, key)
    values, labels = _read(visit, project["id"])
    if not visit.form.ok:
        return _form_page(visit, project, None, visit.form, labels, 422)
    number = visit.value("SELECT coalesce(max(number), 0) + 1 FROM issue WHERE project_id = ?", project["id"])
    status = values.pop("status")
    values |= {"project_id": project["id"], "number": number, "status": "Open", "created_at": visit.stamp}
    values["reporter_id"] = visit.value("SELECT person_id FROM me")
    names = ", ".join(values)
    marks = ", ".join("?" * len(values))
    issue_id = visit.run(f"INSERT INTO issue ({names}) VALUES ({marks})", *values.values())
    set_status(visit, issue_id, status)
    _set_labels(visit, issue_id, labels)
    return visit.redirect(f"/issue/{key}-{number}", f"{key}-{number} was created.")


@routes.get("/issue/{name}/edit")
def edit_form(visit: Visit, name: str) -> SiteReply:
    """Show an issue to edit."""
    issue = find_issue(visit, name)
    values = {**dict(issue), "assignee": issue["assignee_id"], "milestone": issue["milestone_id"]}
    labels = [row["name"] for row in visit.rows(
        "SELECT name FROM issue_label JOIN label ON label.id = label_id WHERE issue_id = ?", issue["id"]
    )]  # fmt: skip
    return _form_page(visit, find_project(visit, issue["key"]), issue, SiteForm.filled(values), labels)


@routes.post("/issue/{name}/edit")
def edit(visit: Visit, name: str) -> SiteReply:
    """Save an edited issue."""
    issue = find_issue(visit, name)
    project = find_project(visit, issue["key"])
    values, labels = _read(visit, project["id"], issue["milestone_id"])
    if not visit.form.ok:
        return _form_page(visit, project, issue, visit.form, labels, 422)
    status = values.pop("status")
    changes = ", ".join(f"{key} = ?" for key in values)
    visit.run(f"UPDATE issue SET {changes} WHERE id = ?", *values.values(), issue["id"])
    set_status(visit, issue["id"], status)
    _set_labels(visit, issue["id"], labels)
    return visit.redirect(f"/issue/{name}", f"{name} was saved.")


def _read(visit: Visit, project_id: int, milestone_id: int | None = None) -> tuple[dict[str, Any], list[str]]:
    form = visit.form
    people = [str(row["id"]) for row in visit.rows("SELECT id FROM person")]
    milestones = [str(row["id"]) for row in field_options(visit, project_id, milestone_id)["milestones"]]
    assignee = form.choice("assignee", people, required=False)
    milestone = form.choice("milestone", milestones, required=False)
    values = {
        "title": form.text("title", most=120),
        "body": form.text("body", required=False, most=BODY_MOST),
        "status": form.choice("status", STATUSES),
        "priority": form.choice("priority", PRIORITIES),
        "assignee_id": int(assignee) if assignee else None,
        "milestone_id": int(milestone) if milestone else None,
        "due_on": form.date("due_on", required=False) or None,
    }
    return values, form.choices("label", [row["name"] for row in visit.rows("SELECT name FROM label ORDER BY id")])


def _set_labels(visit: Visit, issue: int, labels: list[str]) -> None:
    visit.run("DELETE FROM issue_label WHERE issue_id = ?", issue)
    for name in labels:
        visit.run("INSERT INTO issue_label SELECT ?, id FROM label WHERE name = ?", issue, name)


def _chosen(visit: Visit, ids: str) -> list[sqlite3.Row]:
    issue_ids = [int(text) for text in ids.split(",") if text.isascii() and text.isdecimal() and len(text) < 10]
    marks = ", ".join("?" * len(issue_ids))
    return visit.rows(f"SELECT * FROM ({ISSUES}) WHERE id IN ({marks}) ORDER BY id", *issue_ids)


@routes.get("/bulk")
def bulk_form(visit: Visit) -> SiteReply:
    """Ask what to change in the ticked issues."""
    return _bulk_page(visit, visit.query.get("issue", ""), visit.query.get("query", ""))


def _bulk_page(visit: Visit, ids: str, query: str, status: int = 200) -> SiteReply:
    issues = _chosen(visit, ids)
    if not issues:
        raise PageProblem(400, "No issue was selected. Tick at least one issue of the list first.")
    return visit.page("tracker/bulk.html", status, issues=issues, query=query, **field_options(visit, None))


@routes.post("/bulk")
def bulk(visit: Visit) -> SiteReply:
    """Apply the chosen changes to the ticked issues."""
    form = visit.form
    people = [str(row["id"]) for row in visit.rows("SELECT id FROM person")]
    status = form.choice("status", STATUSES, required=False)
    priority = form.choice("priority", PRIORITIES, required=False)
    assignee = form.choice("assignee", ["nobody", *people], required=False)
    label = form.choice("label", [row["name"] for row in visit.rows("SELECT name FROM label")], required=False)
    ids, query = form.values.get("issues", ""), form.values.get("query", "")
    if not form.ok:
        return _bulk_page(visit, ids, query, 422)
    issues = _chosen(visit, ids)
    for issue in (row["id"] for row in issues):
        if status:
            set_status(visit, issue, status)
        if priority:
            visit.run("UPDATE issue SET priority = ? WHERE id = ?", priority, issue)
        if assignee:
            assignee_id = None if assignee == "nobody" else int(assignee)
            visit.run("UPDATE issue SET assignee_id = ? WHERE id = ?", assignee_id, issue)
        if label:
            visit.run("INSERT OR IGNORE INTO issue_label SELECT ?, id FROM label WHERE name = ?", issue, label)
    return visit.redirect(f"/issues?{query}", f"{len(issues)} issue{'' if len(issues) == 1 else 's'} changed.")
