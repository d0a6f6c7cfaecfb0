"""Bulk changes to the issues of a list: tick them in the list, then choose what to change."""

from __future__ import annotations

import sqlite3

from agentgym.tasks.web.sites.reply import SiteReply
from agentgym.tasks.web.sites.site import Routes
from agentgym.tasks.web.sites.tracker.fill import PRIORITIES, STATUSES
from agentgym.tasks.web.sites.tracker.issue import set_status
from agentgym.tasks.web.sites.tracker.listing import ISSUES, field_options
from agentgym.tasks.web.sites.visit import PageProblem, Visit

routes = Routes()


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
