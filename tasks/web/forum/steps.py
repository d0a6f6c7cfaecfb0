"""Helpers of the forum's families: steps for its pages, and queries for threads and posts."""

from __future__ import annotations

import sqlite3

from agentgym.tasks.web.family import Change, Step, WebScene
from agentgym.tasks.web.plan import button, fill, link
from agentgym.tasks.web.sites.forum.read import POSTS, POSTS_PER_PAGE, THREADS

ME = "(SELECT member_id FROM me)"
NOW = "(SELECT now FROM clock)"
SENTENCES = (
    "Thanks a lot, that helped me.",
    "I tried it yesterday: it works.",
    "Don't forget to let it rest overnight!",
    "My neighbour says it's the other way round…",
    "Any news? I'm curious how it went.",
    "For the record: the second method was better.",
    "Größe matters here, so measure twice.",
    "I'd say “wait until spring”.",
)


def threads(scene: WebScene, condition: str = "1", *params: object) -> list[sqlite3.Row]:
    """Return threads with their board, author, number of replies and last activity."""
    unique = "title IN (SELECT title FROM thread GROUP BY title HAVING count(*) = 1)"
    return scene.rows(f"SELECT * FROM ({THREADS}) WHERE {unique} AND {condition} ORDER BY id", *params)


def posts(scene: WebScene, condition: str = "1", *params: object) -> list[sqlite3.Row]:
    """Return posts that were not removed, with their number in the thread, and the thread's title and lock."""
    return scene.rows(
        f"SELECT posts.*, title, locked, thread.author_id AS starter_id FROM ({POSTS}) AS posts JOIN thread "
        "ON thread.id = thread_id WHERE NOT removed AND "
        f"title IN (SELECT title FROM thread GROUP BY title HAVING count(*) = 1) AND ({condition}) ORDER BY posts.id",
        *params,
    )


def open_thread(title: str) -> list[Step]:
    """Find a thread by its title and open it."""
    return [fill("Search the forum", title, "searchbox"), button("Search"), link(title)]


def open_post(post: sqlite3.Row) -> list[Step]:
    """Open the page of a thread that shows a post."""
    turns = (post["number"] - 1) // POSTS_PER_PAGE
    return [*open_thread(post["title"]), *[link("Next page")] * turns]


def reply_change(thread: int, body: str) -> Change:
    """Return the changes that a reply makes to the database."""
    sql = f"INSERT INTO post (thread_id, author_id, body, written_at, removed, others) VALUES (?, {ME}, ?, {NOW}, 0, 0)"
    return sql, [thread, body]


def thread_changes(board: int, title: str, body: str) -> list[Change]:
    """Return the changes that a new thread makes to the database."""
    started = (
        f"INSERT INTO thread (board_id, title, author_id, created_at, pinned, locked) VALUES (?, ?, {ME}, {NOW}, 0, 0)",
        [board, title],
    )
    first = (
        "INSERT INTO post (thread_id, author_id, body, written_at, removed, others) "
        f"VALUES ((SELECT max(id) FROM thread), {ME}, ?, {NOW}, 0, 0)",
        [body],
    )
    return [started, first]
