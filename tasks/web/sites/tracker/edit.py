"""Creating and editing issues."""

from __future__ import annotations

import sqlite3
from typing import Any

from agentgym.tasks.web.sites.forms import SiteForm
from agentgym.tasks.web.sites.reply import SiteReply
from agentgym.tasks.web.sites.site import Routes
from agentgym.tasks.web.sites.tracker.fill import PRIORITIES, STATUSES
from agentgym.tasks.web.sites.tracker.issue import BODY_MOST, find_issue, set_status
from agentgym.tasks.web.sites.tracker.listing import field_options, find_project
from agentgym.tasks.web.sites.visit import Visit

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
