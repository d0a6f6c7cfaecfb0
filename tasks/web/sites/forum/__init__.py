"""The forum, http://forum.test/: boards, threads and posts, members, reports, and a board to moderate."""

from __future__ import annotations

from agentgym.tasks.web.sites.forum import moderate, read, write
from agentgym.tasks.web.sites.forum.fill import fill
from agentgym.tasks.web.sites.site import Routes, Site
from agentgym.tasks.web.sites.visit import Visit


def _context(visit: Visit) -> dict[str, object]:
    me = visit.row("SELECT member.* FROM member JOIN me ON member_id = id")
    own = "SELECT count(*) FROM flag JOIN post ON post.id = post_id JOIN thread ON thread.id = thread_id JOIN board "
    own += "ON board.id = board_id WHERE outcome = 'open' AND moderator_id = (SELECT member_id FROM me)"
    return {"me": me, "open_flags": visit.value(own), "boards": visit.rows("SELECT * FROM board ORDER BY id")}


SITE = Site(
    name="forum",
    title="Commonplace",
    fill=fill,
    routes=Routes([*read.routes, *write.routes, *moderate.routes]),
    context=_context,
)
