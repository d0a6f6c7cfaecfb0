"""Actions of the forum's members: start threads, reply, edit, vote, report, subscribe."""

from __future__ import annotations

import sqlite3

from agentgym.tasks.web.sites.forms import SiteForm
from agentgym.tasks.web.sites.forum.fill import REASONS
from agentgym.tasks.web.sites.forum.read import POSTS, find_thread, place_of, show_thread
from agentgym.tasks.web.sites.site import Routes, SiteReply
from agentgym.tasks.web.sites.visit import PageProblem, Visit

routes = Routes()
BODY_MOST = 4000
_POST = (
    "INSERT INTO post (thread_id, author_id, body, written_at, removed, others) "
    "VALUES (?, (SELECT member_id FROM me), ?, ?, 0, 0)"
)


@routes.get("/b/{slug}/new")
def thread_form(visit: Visit, slug: str) -> SiteReply:
    """Show the form for a new thread."""
    return _thread_page(visit, slug)


def _thread_page(visit: Visit, slug: str, status: int = 200) -> SiteReply:
    board = visit.find("board", "SELECT * FROM board WHERE slug = ?", slug)
    return visit.page("forum/new.html", status, board=board)


@routes.post("/b/{slug}/new")
def start_thread(visit: Visit, slug: str) -> SiteReply:
    """Start a thread."""
    board = visit.find("board", "SELECT * FROM board WHERE slug = ?", slug)
    title, body = visit.form.text("title", most=120), visit.form.text("body", most=BODY_MOST)
    if not visit.form.ok:
        return _thread_page(visit, slug, 422)
    number = visit.run(
        "INSERT INTO thread (board_id, title, author_id, created_at, pinned, locked) "
        "VALUES (?, ?, (SELECT member_id FROM me), ?, 0, 0)",
        *(board["id"], title, visit.stamp),
    )
    visit.run(_POST, number, body, visit.stamp)
    return visit.redirect(f"/t/{number}", "Your thread was started.")


@routes.post("/t/{number:int}/reply")
def reply(visit: Visit, number: int) -> SiteReply:
    """Add a post to a thread."""
    if find_thread(visit, number)["locked"]:
        raise PageProblem(403, "This thread is locked. Nobody can reply to it.")
    body = visit.form.text("body", most=BODY_MOST)
    if not visit.form.ok:
        return show_thread(visit, number, 422)
    return visit.redirect(place_of(visit, visit.run(_POST, number, body, visit.stamp)), "Your reply was posted.")


def find_post(visit: Visit, number: int) -> sqlite3.Row:
    """Return a visible post, or end the visit with a page that says that it does not exist."""
    return visit.find("post", f"SELECT * FROM ({POSTS}) WHERE id = ? AND NOT removed", number)


def _own_post(visit: Visit, number: int) -> sqlite3.Row:
    post = find_post(visit, number)
    if post["author_id"] != visit.value("SELECT member_id FROM me"):
        raise PageProblem(403, "You can only change your own posts.")
    if find_thread(visit, post["thread_id"])["locked"]:
        raise PageProblem(403, "This thread is locked. Its posts cannot be changed.")
    return post


@routes.get("/p/{number:int}/edit")
def edit_form(visit: Visit, number: int) -> SiteReply:
    """Show a post to edit."""
    post = _own_post(visit, number)
    return visit.page("forum/edit.html", post=post, form=SiteForm.filled({"body": post["body"]}))


@routes.post("/p/{number:int}/edit")
def edit(visit: Visit, number: int) -> SiteReply:
    """Save an edited post."""
    post = _own_post(visit, number)
    body = visit.form.text("body", most=BODY_MOST)
    if not visit.form.ok:
        return visit.page("forum/edit.html", 422, post=post)
    visit.run("UPDATE post SET body = ?, edited_at = ? WHERE id = ?", body, visit.stamp, number)
    return visit.redirect(place_of(visit, number), "Your post was saved.")


@routes.post("/p/{number:int}/delete")
def delete(visit: Visit, number: int) -> SiteReply:
    """Delete one's own post; its place in the thread stays."""
    _own_post(visit, number)
    visit.run("UPDATE post SET removed = 1 WHERE id = ?", number)
    return visit.redirect(place_of(visit, number), "Your post was deleted.")


@routes.post("/p/{number:int}/vote")
def vote(visit: Visit, number: int) -> SiteReply:
    """Vote on a post; the same vote again withdraws it."""
    post = find_post(visit, number)
    value = visit.form.integer("value", -1, 1)
    if post["author_id"] == visit.value("SELECT member_id FROM me"):
        raise PageProblem(403, "You cannot vote on your own posts.")
    if not visit.form.ok or value == 0:
        raise PageProblem(400, "A vote is +1 or -1.")
    visit.run("DELETE FROM vote WHERE post_id = ?", number)
    if post["value"] != value:
        visit.run("INSERT INTO vote VALUES (?, ?)", number, value)
    return visit.redirect(place_of(visit, number))


@routes.get("/p/{number:int}/report")
def report_form(visit: Visit, number: int) -> SiteReply:
    """Ask for the reason to report a post."""
    return _report_page(visit, number)


def _report_page(visit: Visit, number: int, status: int = 200) -> SiteReply:
    return visit.page("forum/report.html", status, post=find_post(visit, number), reasons=REASONS)


@routes.post("/p/{number:int}/report")
def report(visit: Visit, number: int) -> SiteReply:
    """Report a post to the board's moderator; a second report replaces the first."""
    find_post(visit, number)
    reason, comment = visit.form.choice("reason", REASONS), visit.form.text("comment", required=False, most=500)
    if not visit.form.ok:
        return _report_page(visit, number, 422)
    visit.run("INSERT OR REPLACE INTO report VALUES (?, ?, ?, ?)", number, reason, comment, visit.stamp)
    return visit.redirect(place_of(visit, number), "Thank you. The moderator will have a look.")


@routes.post("/t/{number:int}/subscribe")
def subscribe(visit: Visit, number: int) -> SiteReply:
    """Subscribe to a thread, or unsubscribe."""
    find_thread(visit, number)
    if visit.row("SELECT 1 FROM subscription WHERE thread_id = ?", number):
        visit.run("DELETE FROM subscription WHERE thread_id = ?", number)
        return visit.redirect(f"/t/{number}", "You are no longer subscribed.")
    visit.run("INSERT INTO subscription VALUES (?)", number)
    return visit.redirect(f"/t/{number}", "You are subscribed to this thread.")
