"""The forum's initial content: members, boards, threads with posts, votes, and reports for the moderator."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from agentgym.tasks.data_files import read_data
from agentgym.tasks.web.sites.site import Build

REASONS = ("Spam", "Rude or hurtful", "Off topic", "Dangerous advice")
_FLAGGED = {"Spam": "spam", "Rude or hurtful": "rude", "Off topic": "offtopic"}


def fill(build: Build) -> None:
    """Fill the forum for a seed."""
    texts = read_data("web/sites/forum", "forum")
    for person in build.words.people(36):
        city = build.words.city()
        build.insert(
            "member",
            username=person.username,
            name=person.name,
            about=build.rng.choice(texts["abouts"]).format(city=city),
            city=city,
            joined_on=build.before(1200, 1100)[:10],
            email_replies=build.rng.randrange(2),
        )
    build.insert("me", member_id=1)
    own = build.rng.randrange(len(texts["boards"]))
    for number, board in enumerate(texts["boards"]):
        moderator = 1 if number == own else build.rng.randint(2, 12)
        board_id = build.insert(
            "board", slug=board["slug"], name=board["name"], about=board["about"], moderator_id=moderator
        )
        _fill_board(build, texts, board, board_id)
    _fill_flags(build, texts, own + 1)
    for (thread_id,) in build.db.execute("SELECT id FROM thread ORDER BY id").fetchall():
        if build.rng.random() < 0.06:
            build.insert("subscription", thread_id=thread_id)


def _fill_board(build: Build, texts: dict[str, Any], board: dict[str, Any], board_id: int) -> None:
    rng = build.rng
    titles: dict[str, tuple[str, str]] = {}
    while len(titles) < 14:
        thing, other = rng.sample(board["things"], 2)
        title = rng.choice(texts["titles"]).format(thing=thing, other=other, city=build.words.city())
        titles.setdefault(title[0].upper() + title[1:], (thing, other))
    for title, (thing, other) in titles.items():
        author = _member(build)
        started = build.before(160, 155)
        thread_id = build.insert(
            "thread",
            board_id=board_id,
            title=title,
            author_id=author,
            created_at=started,
            pinned=int(rng.random() < 0.08),
            locked=int(rng.random() < 0.12),
        )
        _fill_thread(build, texts, thread_id, author, started, {"thing": thing, "other": other})


def _fill_thread(build: Build, texts: dict[str, Any], thread: int, author: int, started: str, words: dict[str, str]):
    rng = build.rng
    when = datetime.strptime(started, "%Y-%m-%d %H:%M")
    count = min(1 + int(rng.expovariate(1 / 5)), 17)
    replies = rng.sample(texts["replies"], min(count - 1, len(texts["replies"])))
    for number, text in enumerate([rng.choice(texts["openers"]), *replies]):
        stamp = when.strftime("%Y-%m-%d %H:%M")
        build.insert(
            "post",
            thread_id=thread,
            author_id=_member(build) if number else author,
            body=text.format(city=build.words.city(), **words),
            written_at=stamp,
            removed=0,
            others=int(rng.expovariate(1 / 4)) - rng.choice((0, 0, 1, 3)),
        )
        minutes_left = (build.now - when).total_seconds() / 60
        when += timedelta(minutes=rng.uniform(1, max(minutes_left, 2) / 3))


def _member(build: Build) -> int:
    # A few members write most posts; number 1 is the logged-in member.
    return min(1 + int(build.rng.expovariate(1 / 9)), 36)


def _fill_flags(build: Build, texts: dict[str, Any], board_id: int) -> None:
    threads = build.db.execute(
        "SELECT id FROM thread WHERE board_id = ? AND NOT locked ORDER BY id", (board_id,)
    ).fetchall()
    kinds = ["Spam", "Spam", *build.rng.choices(tuple(_FLAGGED), k=3)]
    build.rng.shuffle(kinds)
    for (thread_id,), reason in zip(build.rng.sample(threads, len(kinds)), kinds, strict=True):
        # Some reports are wrong: the post is an ordinary one.
        kind = _FLAGGED[reason] if build.rng.random() < 0.8 else "rude"
        last = build.db.execute("SELECT max(written_at) FROM post WHERE thread_id = ?", (thread_id,)).fetchone()[0]
        post_id = build.insert(
            "post",
            thread_id=thread_id,
            author_id=build.rng.randint(25, 36),
            body=build.rng.choice(texts[kind]),
            written_at=max(last, build.before(1, 0.9)),
            removed=0,
            others=-build.rng.randint(1, 6),
        )
        build.insert(
            "flag",
            post_id=post_id,
            reporter_id=build.rng.randint(2, 20),
            reason=reason,
            flagged_at=build.now.strftime("%Y-%m-%d %H:%M"),
            outcome="open",
        )
