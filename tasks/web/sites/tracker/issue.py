"""The page of one issue: comments, status, watching, duplicates, and blocking issues."""

from __future__ import annotations

import re
import sqlite3

from agentgym.tasks.web.sites.forms import SiteForm
from agentgym.tasks.web.sites.site import Routes, SiteReply
from agentgym.tasks.web.sites.tracker.fill import CLOSED
from agentgym.tasks.web.sites.tracker.listing import ISSUES
from agentgym.tasks.web.sites.visit import PageProblem, Visit

routes = Routes()
BODY_MOST = 4000


def find_issue(visit: Visit, name: str) -> sqlite3.Row:
    """Return the issue called `name` (as in `ATLAS-12`), or end the visit with the page `404`."""
    return visit.find("issue", f"SELECT * FROM ({ISSUES}) WHERE name = ?", name)


def set_status(visit: Visit, issue: int, status: str) -> None:
    """Change the status of an issue; the time of closing is that of the first closed status."""
    closed = visit.stamp if status in CLOSED else None
    visit.run(
        "UPDATE issue SET status = ?, closed_at = CASE WHEN ? IS NULL THEN NULL ELSE coalesce(closed_at, ?) END, "
        "duplicate_of = CASE WHEN ? = 'Duplicate' THEN duplicate_of END WHERE id = ?",
        *(status, closed, closed, status, issue),
    )


@routes.get("/issue/{name}")
def issue(visit: Visit, name: str) -> SiteReply:
    """Show an issue."""
    return _issue_page(visit, name)


def _issue_page(visit: Visit, name: str, status: int = 200) -> SiteReply:
    issue = find_issue(visit, name)
    blocked = f"SELECT * FROM ({ISSUES}) WHERE id IN (SELECT blocker_id FROM blocking WHERE blocked_id = ?) ORDER BY id"
    blocks = f"SELECT * FROM ({ISSUES}) WHERE id IN (SELECT blocked_id FROM blocking WHERE blocker_id = ?) ORDER BY id"
    return visit.page(
        "tracker/issue.html",
        status,
        issue=issue,
        comments=visit.rows(
            "SELECT comment.*, name AS author FROM comment JOIN person ON person.id = author_id WHERE issue_id = ? "
            "ORDER BY comment.id",
            issue["id"],
        ),
        blocked_by=visit.rows(blocked, issue["id"]),
        blocks=visit.rows(blocks, issue["id"]),
        original=visit.row(f"SELECT * FROM ({ISSUES}) WHERE id = ?", issue["duplicate_of"]),
        watching=visit.row("SELECT 1 FROM watching WHERE issue_id = ?", issue["id"]) is not None,
    )


@routes.post("/issue/{name}/comment")
def comment(visit: Visit, name: str) -> SiteReply:
    """Add a comment."""
    issue = find_issue(visit, name)
    body = visit.form.text("comment", most=BODY_MOST)
    if not visit.form.ok:
        return _issue_page(visit, name, 422)
    visit.run(
        "INSERT INTO comment (issue_id, author_id, body, written_at) VALUES (?, (SELECT person_id FROM me), ?, ?)",
        *(issue["id"], body, visit.stamp),
    )
    return visit.redirect(f"/issue/{name}", "Your comment was added.")


@routes.post("/issue/{name}/close")
def close(visit: Visit, name: str) -> SiteReply:
    """Close an issue as done."""
    set_status(visit, find_issue(visit, name)["id"], "Done")
    return visit.redirect(f"/issue/{name}", f"{name} was closed.")


@routes.post("/issue/{name}/reopen")
def reopen(visit: Visit, name: str) -> SiteReply:
    """Reopen a closed issue."""
    set_status(visit, find_issue(visit, name)["id"], "Open")
    return visit.redirect(f"/issue/{name}", f"{name} is open again.")


@routes.post("/issue/{name}/watch")
def watch(visit: Visit, name: str) -> SiteReply:
    """Watch or unwatch an issue."""
    issue = find_issue(visit, name)
    if visit.row("SELECT 1 FROM watching WHERE issue_id = ?", issue["id"]):
        visit.run("DELETE FROM watching WHERE issue_id = ?", issue["id"])
        return visit.redirect(f"/issue/{name}", f"You no longer watch {name}.")
    visit.run("INSERT INTO watching VALUES (?)", issue["id"])
    return visit.redirect(f"/issue/{name}", f"You are watching {name}.")


@routes.get("/issue/{name}/link")
def link_form(visit: Visit, name: str) -> SiteReply:
    """Ask which issue this one duplicates or is blocked by."""
    return visit.page("tracker/link.html", issue=find_issue(visit, name))


@routes.post("/issue/{name}/duplicate")
def mark_duplicate(visit: Visit, name: str) -> SiteReply:
    """Close an issue as a duplicate of another one."""
    issue = find_issue(visit, name)
    other = _other(visit, "duplicate_of", issue["id"])
    if other is None:
        return visit.page("tracker/link.html", 422, issue=issue)
    set_status(visit, issue["id"], "Duplicate")
    visit.run("UPDATE issue SET duplicate_of = ? WHERE id = ?", other, issue["id"])
    return visit.redirect(f"/issue/{name}", f"{name} was closed as a duplicate.")


@routes.post("/issue/{name}/block")
def block(visit: Visit, name: str) -> SiteReply:
    """Record that another issue blocks this one."""
    issue = find_issue(visit, name)
    other = _other(visit, "blocker", issue["id"])
    if other is None:
        return visit.page("tracker/link.html", 422, issue=issue)
    visit.run("INSERT OR IGNORE INTO blocking VALUES (?, ?)", other, issue["id"])
    return visit.redirect(f"/issue/{name}", "The link was added.")


def _other(visit: Visit, field: str, issue_id: int) -> int | None:
    name = re.sub(r"\s", "", visit.form.text(field, most=40)).upper()
    other = visit.value(f"SELECT id FROM ({ISSUES}) WHERE name = ?", name)
    if visit.form.ok and other is None:
        visit.form.error(field, "There is no such issue. Issues are called as in ABC-12.")
    if other == issue_id:
        visit.form.error(field, "This is the same issue.")
    return other if visit.form.ok else None


def _own_comment(visit: Visit, number: int) -> sqlite3.Row:
    comment = visit.find(
        "comment",
        "SELECT comment.*, key || '-' || issue.number AS issue FROM comment JOIN issue ON issue.id = issue_id "
        "JOIN project ON project.id = project_id WHERE comment.id = ?",
        number,
    )
    if comment["author_id"] != visit.value("SELECT person_id FROM me"):
        raise PageProblem(403, "You can only change your own comments.")
    return comment


@routes.get("/comment/{number:int}/edit")
def comment_form(visit: Visit, number: int) -> SiteReply:
    """Show a comment to edit."""
    comment = _own_comment(visit, number)
    return visit.page("tracker/comment.html", comment=comment, form=SiteForm.filled({"comment": comment["body"]}))


@routes.post("/comment/{number:int}/edit")
def edit_comment(visit: Visit, number: int) -> SiteReply:
    """Save an edited comment."""
    comment = _own_comment(visit, number)
    body = visit.form.text("comment", most=BODY_MOST)
    if not visit.form.ok:
        return visit.page("tracker/comment.html", 422, comment=comment)
    visit.run("UPDATE comment SET body = ?, edited_at = ? WHERE id = ?", body, visit.stamp, number)
    return visit.redirect(f"/issue/{comment['issue']}", "Your comment was saved.")


@routes.post("/comment/{number:int}/delete")
def delete_comment(visit: Visit, number: int) -> SiteReply:
    """Delete one's own comment."""
    comment = _own_comment(visit, number)
    visit.run("DELETE FROM comment WHERE id = ?", number)
    return visit.redirect(f"/issue/{comment['issue']}", "Your comment was deleted.")
