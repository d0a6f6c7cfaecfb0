"""The forum's members: the list, profiles, one's own subscriptions and settings."""

from __future__ import annotations

from agentgym.tasks.web.sites.forms import SiteForm
from agentgym.tasks.web.sites.forum.read import POSTS, THREADS
from agentgym.tasks.web.sites.reply import SiteReply
from agentgym.tasks.web.sites.site import Routes
from agentgym.tasks.web.sites.visit import Visit

routes = Routes()

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
