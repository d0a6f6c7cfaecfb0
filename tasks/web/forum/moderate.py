"""Forum: families that moderate one's own board."""

from __future__ import annotations

from agentgym.tasks.web.checks import check
from agentgym.tasks.web.family import Step, WebDraft, WebScene, family
from agentgym.tasks.web.forum.steps import ME, open_thread, threads
from agentgym.tasks.web.plan import accept, button, link, select
from agentgym.tasks.web.sites.pages import day

_OWN = f"moderator_id = {ME}"


@family(
    "forum.pin",
    2,
    "{way} the thread “{title}” in the board that I moderate.",
    "You are the moderator of {board}: {do} the thread “{title}”.",
    "In {board}, which I moderate, there is the thread “{title}”. {way} it.",
)
def pin(scene: WebScene) -> WebDraft:
    """Pin, unpin, lock or unlock a thread."""
    thread = scene.choice(threads(scene, _OWN))
    column = scene.choice(("pinned", "locked"))
    way = {"pinned": ("Pin", "Unpin"), "locked": ("Lock", "Unlock")}[column][thread[column]]
    return WebDraft(
        words={"title": thread["title"], "board": thread["board"], "way": way, "do": way.lower()},
        plan=[*open_thread(thread["title"]), button(f"{way} thread")],
        effect=[(f"UPDATE thread SET {column} = 1 - {column} WHERE id = ?", [thread["id"]])],
        checks=[check("done", f"SELECT {column} <> ? FROM thread WHERE id = ?", thread[column], thread["id"])],
    )


@family(
    "forum.move",
    3,
    "The thread “{title}” is in the wrong board. Move it to {board}, and lock it.",
    "Please move “{title}” from my board to {board}; before that, lock the thread.",
    "“{title}” belongs in {board}. Please lock the thread and move it there.",
)
def move(scene: WebScene) -> WebDraft:
    """Lock a thread, then move it to another board, where one is no longer its moderator."""
    thread = scene.choice(threads(scene, f"{_OWN} AND NOT locked"))
    board = scene.pick("SELECT * FROM board WHERE id <> ? ORDER BY id", thread["board_id"])
    plan = [*open_thread(thread["title"]), button("Lock thread"), select("Move to", board["name"])]
    return WebDraft(
        words={"title": thread["title"], "board": board["name"]},
        plan=[*plan, button("Move thread")],
        effect=[("UPDATE thread SET locked = 1, board_id = ? WHERE id = ?", [board["id"], thread["id"]])],
        checks=[
            check("locked", "SELECT locked FROM thread WHERE id = ?", thread["id"]),
            check("moved", "SELECT board_id = ? FROM thread WHERE id = ?", board["id"], thread["id"]),
        ],
    )


@family(
    "forum.clean_up",
    4,
    "Go through the open reports of my board: remove the posts that were reported as “{reason}”, and dismiss all other "
    "reports.",
    "In the moderation queue, every post reported for “{reason}” has to be removed. The other reports are to be "
    "dismissed.",
    "Please deal with all open reports in my board. If a post was reported as “{reason}”, remove it; in "
    "every other case, dismiss the report.",
)
def clean_up(scene: WebScene) -> WebDraft:
    """Settle all reports by their reason."""
    flags = scene.rows(
        "SELECT flag.*, title FROM flag JOIN post ON post.id = post_id JOIN thread ON thread.id = thread_id "
        "WHERE outcome = 'open' ORDER BY post_id"
    )
    scene.need(len({flag["title"] for flag in flags}) == len(flags))
    reason = scene.choice(sorted({flag["reason"] for flag in flags}))
    open_flags = len(flags)
    plan: list[Step] = [link(f"Moderation ({open_flags})")]
    for flag in flags:
        if flag["reason"] == reason:
            plan += [accept(), button(f"Remove post in {flag['title']}")]
        else:
            plan.append(button(f"Dismiss report in {flag['title']}"))
    flagged = "(SELECT post_id FROM flag WHERE outcome = 'open' AND reason = ?)"
    sql = "UPDATE flag SET outcome = CASE WHEN reason = ? THEN 'removed' ELSE 'dismissed' END WHERE outcome = 'open'"
    wrong = "SELECT count(*) = 0 FROM flag WHERE (reason = ?) AND outcome <> 'removed'"
    return WebDraft(
        words={"reason": reason},
        plan=plan,
        effect=[(f"UPDATE post SET removed = 1 WHERE id IN {flagged}", [reason]), (sql, [reason])],
        checks=[
            check("removed", wrong, reason),
            check("settled", "SELECT count(*) = 0 FROM flag WHERE outcome = 'open'"),
        ],
    )


@family(
    "forum.lock_old",
    5,
    "Lock every thread of {board} whose last post was written before {date}, unless it is locked already.",
    "In the board {board}, which I moderate, all threads without a post since {date} (that day included) should be "
    "locked. Some may be locked already.",
    "Please lock all threads in {board} in which nobody has posted since {date}, that day included; the ones "
    "that are locked already can stay as they are.",
)
def lock_old(scene: WebScene) -> WebDraft:
    """Lock all old threads of one's own board."""
    own = sorted(threads(scene, _OWN), key=lambda row: row["active_at"])
    scene.need(len(own) == scene.value(f"SELECT count(*) FROM thread JOIN board ON board.id = board_id WHERE {_OWN}"))
    limit = scene.choice(own[2:6])["active_at"][:10]
    old = [row for row in own if row["active_at"] < limit]
    unlocked = [row for row in old if not row["locked"]]
    scene.need(2 <= len(unlocked) <= 5)
    board = own[0]["board"]
    plan: list[Step] = []
    for row in unlocked:
        plan += [*open_thread(row["title"]), button("Lock thread")]
    ids = [row["id"] for row in unlocked]
    marks = ", ".join("?" * len(ids))
    return WebDraft(
        words={"board": board, "date": day(limit)},
        plan=[link(board), select("Sort by", "Oldest activity"), button("Sort"), *plan],
        effect=[(f"UPDATE thread SET locked = 1 WHERE id IN ({marks})", ids)],
        checks=[
            check(f"locked {number}", "SELECT locked FROM thread WHERE id = ?", id) for number, id in enumerate(ids, 1)
        ],
    )
