"""Actions of a board's moderator: pin, lock and move its threads, remove posts, settle reports."""

from __future__ import annotations

import sqlite3

from agentgym.tasks.web.sites.forms import SiteForm
from agentgym.tasks.web.sites.forum.read import POSTS, THREADS, find_thread, place_of
from agentgym.tasks.web.sites.forum.write import find_post
from agentgym.tasks.web.sites.site import Routes, SiteReply
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


MEMBERS = """
SELECT member.*, (SELECT count(*) FROM post WHERE author_id = member.id AND NOT removed) AS posts,
    (SELECT coalesce(sum(others), 0) FROM post WHERE author_id = member.id AND NOT removed) AS points
FROM member
"""
SORTS = {
    "name": ("Name", "name, id"),
    "posts": ("Most posts", "posts DESC, id"),
    "points": ("Most points", "points DESC, id"),
    "joined": ("Longest member", "joined_on, id"),
}


@routes.get("/members")
def members(visit: Visit) -> SiteReply:
    """List the members."""
    order = SORTS.get(visit.query.get("sort", ""), SORTS["name"])[1]
    text = visit.query.get("name", "")
    rows = visit.rows(f"SELECT * FROM ({MEMBERS}) WHERE instr(lower(name), lower(?)) > 0 ORDER BY {order}", text)
    return visit.page("forum/members.html", pager=visit.pager(rows), sorts=SORTS)


@routes.get("/u/{username}")
def profile(visit: Visit, username: str) -> SiteReply:
    """Show one member: their threads or posts."""
    member = visit.find("member", f"SELECT * FROM ({MEMBERS}) WHERE username = ?", username)
    tab = "posts" if visit.query.get("tab") == "posts" else "threads"
    if tab == "threads":
        rows = visit.rows(
            f"SELECT * FROM ({THREADS}) WHERE author_id = ? ORDER BY created_at DESC, id DESC", member["id"]
        )
    else:
        rows = visit.rows(
            f"SELECT posts.*, title FROM ({POSTS}) AS posts JOIN thread ON thread.id = thread_id "
            "WHERE posts.author_id = ? AND NOT removed ORDER BY written_at DESC, posts.id DESC",
            member["id"],
        )
    return visit.page("forum/profile.html", member=member, pager=visit.pager(rows), tab=tab)


@routes.get("/subscriptions")
def subscriptions(visit: Visit) -> SiteReply:
    """List the threads that one is subscribed to."""
    rows = visit.rows(
        f"SELECT * FROM ({THREADS}) WHERE id IN (SELECT thread_id FROM subscription) ORDER BY active_at DESC, id DESC"
    )
    return visit.page("forum/subscriptions.html", pager=visit.pager(rows))


@routes.get("/settings")
def settings_form(visit: Visit) -> SiteReply:
    """Show one's own profile to edit."""
    member = visit.find("member", "SELECT member.* FROM member JOIN me ON member_id = id")
    return visit.page("forum/settings.html", form=SiteForm.filled(dict(member)), mails=member["email_replies"])


@routes.post("/settings")
def save_settings(visit: Visit) -> SiteReply:
    """Save one's own profile."""
    name, city = visit.form.text("name", most=60), visit.form.text("city", required=False, most=60)
    about, mails = visit.form.text("about", required=False, most=500), int(visit.form.flag("email_replies"))
    if not visit.form.ok:
        return visit.page("forum/settings.html", 422, mails=mails)
    visit.run(
        "UPDATE member SET name = ?, city = ?, about = ?, email_replies = ? WHERE id = (SELECT member_id FROM me)",
        *(name, city, about, mails),
    )
    return visit.redirect("/settings", "Your profile was saved.")
