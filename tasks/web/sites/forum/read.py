"""The forum's pages for reading: boards, threads, search."""

from __future__ import annotations

import sqlite3

from agentgym.tasks.web.sites.site import Routes, SiteReply
from agentgym.tasks.web.sites.visit import Visit

routes = Routes()
POSTS_PER_PAGE = 8

THREADS = """
SELECT thread.*, board.name AS board, board.slug AS slug, moderator_id, member.name AS author, username,
    (SELECT count(*) - 1 FROM post WHERE thread_id = thread.id) AS replies,
    (SELECT max(written_at) FROM post WHERE thread_id = thread.id) AS active_at
FROM thread JOIN board ON board.id = board_id JOIN member ON member.id = author_id
"""
"""All threads with the columns that lists show."""
POSTS = """
SELECT post.*, member.name AS author, username, others + coalesce(value, 0) AS score, value,
    row_number() OVER (PARTITION BY thread_id ORDER BY post.id) AS number
FROM post JOIN member ON member.id = author_id LEFT JOIN vote ON post_id = post.id
"""
"""All posts with their score and their number within the thread."""
SORTS = {
    "active": ("Latest activity", "active_at DESC, id DESC"),
    "-active": ("Oldest activity", "active_at, id"),
    "new": ("Newest first", "created_at DESC, id DESC"),
    "replies": ("Most replies", "replies DESC, id"),
}


@routes.get("/")
def home(visit: Visit) -> SiteReply:
    """List the boards and their new posts."""
    counts = dict(
        visit.rows("SELECT board_id, count(*) FROM thread GROUP BY board_id")  # type: ignore[arg-type]
    )
    latest = visit.rows(f"{THREADS} ORDER BY active_at DESC, thread.id DESC LIMIT 6")
    return visit.page("forum/home.html", counts=counts, latest=latest)


@routes.get("/b/{slug}")
def board(visit: Visit, slug: str) -> SiteReply:
    """List the threads of a board, pinned ones first."""
    board = visit.find(
        "board", "SELECT board.*, member.name AS moderator, username FROM board JOIN member ON member.id = "
        "moderator_id "
        "WHERE slug = ?", slug
    )  # fmt: skip
    order = SORTS.get(visit.query.get("sort", ""), SORTS["active"])[1]
    rows = visit.rows(f"SELECT * FROM ({THREADS}) WHERE slug = ? ORDER BY pinned DESC, {order}", slug)
    return visit.page("forum/board.html", board=board, pager=visit.pager(rows), sorts=SORTS)


@routes.get("/t/{number:int}")
def thread(visit: Visit, number: int) -> SiteReply:
    """Show a thread."""
    return show_thread(visit, number)


def find_thread(visit: Visit, number: int) -> sqlite3.Row:
    """Return a thread, or end the visit with a page that says that it does not exist."""
    return visit.find("thread", f"SELECT * FROM ({THREADS}) WHERE id = ?", number)


def show_thread(visit: Visit, number: int, status: int = 200) -> SiteReply:
    """Show the page of a thread, with the errors of the visit's form."""
    thread = find_thread(visit, number)
    posts = visit.rows(f"{POSTS} WHERE thread_id = ? ORDER BY post.id", number)
    subscribed = visit.row("SELECT 1 FROM subscription WHERE thread_id = ?", number) is not None
    pager = visit.pager(posts, POSTS_PER_PAGE)
    return visit.page("forum/thread.html", status, thread=thread, pager=pager, subscribed=subscribed)


def place_of(visit: Visit, post: int) -> str:
    """Return the address of the page that shows a post."""
    row = visit.find("post", f"SELECT * FROM ({POSTS}) WHERE id = ?", post)
    page = (row["number"] - 1) // POSTS_PER_PAGE + 1
    return f"/t/{row['thread_id']}" + (f"?page={page}" if page > 1 else "")


@routes.get("/search")
def search(visit: Visit) -> SiteReply:
    """List the threads that contain every word of the query in their title or in one of their posts."""
    words = visit.query.get("q", "").split()[:8]
    titles = visit.query.get("where") == "titles"
    text = "instr(lower(title), lower(?)) > 0"
    body = "EXISTS (SELECT 1 FROM post WHERE thread_id = found.id AND NOT removed AND instr(lower(body), lower(?)) > 0)"
    conditions = [f"({text})" if titles else f"({text} OR {body})"] * len(words)
    values = [word for word in words for _ in range(1 if titles else 2)]
    slug = visit.query.get("board", "")
    if visit.value("SELECT count(*) FROM board WHERE slug = ?", slug):
        conditions.append("slug = ?")
        values.append(slug)
    rows = visit.rows(
        f"SELECT * FROM ({THREADS}) AS found WHERE {' AND '.join(conditions)} ORDER BY active_at DESC, id DESC", *values
    ) if words else []  # fmt: skip
    return visit.page("forum/search.html", pager=visit.pager(rows), words=words)
