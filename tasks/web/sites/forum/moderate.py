"""Actions of a board's moderator: pin, lock and move its threads, remove posts, settle reports."""

from __future__ import annotations

import sqlite3

from agentgym.tasks.web.sites.forum.read import POSTS, find_thread, place_of
from agentgym.tasks.web.sites.forum.write import find_post
from agentgym.tasks.web.sites.reply import SiteReply
from agentgym.tasks.web.sites.site import Routes
from agentgym.tasks.web.sites.visit import PageProblem, Visit

routes = Routes()


def _own_thread(visit: Visit, number: int) -> sqlite3.Row:
    thread = find_thread(visit, number)
    if thread["moderator_id"] != visit.value("SELECT member_id FROM me"):
        raise PageProblem(403, f"You are not the moderator of {thread['board']}.")
    return thread


@routes.post("/t/{number:int}/pin")
def pin(visit: Visit, number: int) -> SiteReply:
    """Pin or unpin a thread."""
    _own_thread(visit, number)
    visit.run("UPDATE thread SET pinned = 1 - pinned WHERE id = ?", number)
    return visit.redirect(f"/t/{number}", "Done.")


@routes.post("/t/{number:int}/lock")
def lock(visit: Visit, number: int) -> SiteReply:
    """Lock or unlock a thread."""
    _own_thread(visit, number)
    visit.run("UPDATE thread SET locked = 1 - locked WHERE id = ?", number)
    return visit.redirect(f"/t/{number}", "Done.")


@routes.post("/t/{number:int}/move")
def move(visit: Visit, number: int) -> SiteReply:
    """Move a thread to another board."""
    _own_thread(visit, number)
    slug = visit.form.choice("board", [row["slug"] for row in visit.rows("SELECT slug FROM board")])
    if not visit.form.ok:
        raise PageProblem(400, "There is no such board.")
    visit.run("UPDATE thread SET board_id = (SELECT id FROM board WHERE slug = ?) WHERE id = ?", slug, number)
    return visit.redirect(f"/t/{number}", "The thread was moved.")


@routes.post("/p/{number:int}/remove")
def remove(visit: Visit, number: int) -> SiteReply:
    """Remove somebody's post; this settles an open report about it."""
    post = find_post(visit, number)
    _own_thread(visit, post["thread_id"])
    visit.run("UPDATE post SET removed = 1 WHERE id = ?", number)
    visit.run("UPDATE flag SET outcome = 'removed' WHERE post_id = ? AND outcome = 'open'", number)
    back = "/moderation" if visit.form.values.get("back") == "queue" else place_of(visit, number)
    return visit.redirect(back, "The post was removed.")


@routes.post("/p/{number:int}/dismiss")
def dismiss(visit: Visit, number: int) -> SiteReply:
    """Settle a report by keeping the post."""
    post = find_post(visit, number)
    _own_thread(visit, post["thread_id"])
    visit.run("UPDATE flag SET outcome = 'dismissed' WHERE post_id = ? AND outcome = 'open'", number)
    return visit.redirect("/moderation", "The report was dismissed.")


@routes.get("/moderation")
def queue(visit: Visit) -> SiteReply:
    """List the open reports about one's own board."""
    rows = visit.rows(
        f"SELECT posts.*, title, reason, reporter.name AS reporter FROM flag JOIN ({POSTS}) AS posts ON posts.id = "
        f"post_id "
        "JOIN thread ON thread.id = thread_id JOIN board ON board.id = board_id JOIN member AS reporter "
        "ON reporter.id = reporter_id WHERE outcome = 'open' AND moderator_id = (SELECT member_id FROM me) "
        "ORDER BY posts.id"
    )
    return visit.page("forum/queue.html", flags=rows)
