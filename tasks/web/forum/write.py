"""Forum: families that reply, start threads, edit, vote, report, subscribe, and change the profile."""

from __future__ import annotations

from agentgym.tasks.web.checks import check, exists
from agentgym.tasks.web.family import IMPOSSIBLE, WebDraft, WebScene, family
from agentgym.tasks.web.forum.steps import (
    ME,
    NOW,
    SENTENCES,
    open_post,
    open_thread,
    posts,
    reply_change,
    thread_changes,
    threads,
)
from agentgym.tasks.web.plan import answer, button, choose, fill, link
from agentgym.tasks.web.sites.forum.fill import REASONS

_TITLES = (
    "Introducing myself and a question",
    "What I learned last month",
    "Looking for advice before the weekend",
    "A small success story",
    "Is it only me?",
    "Übung macht den Meister",
)


@family(
    "forum.subscribe",
    1,
    "Subscribe to the thread “{title}”.",
    "I want to follow the thread “{title}”: subscribe me.",
    "I'd like to hear about new posts in “{title}”. Please subscribe me to that thread.",
)
def subscribe(scene: WebScene) -> WebDraft:
    """Subscribe to a thread."""
    thread = scene.choice(threads(scene, "id NOT IN (SELECT thread_id FROM subscription)"))
    return WebDraft(
        words={"title": thread["title"]},
        plan=[*open_thread(thread["title"]), button("Subscribe")],
        effect=[("INSERT INTO subscription VALUES (?)", [thread["id"]])],
        checks=[exists("subscribed", "subscription WHERE thread_id = ?", thread["id"])],
    )


@family(
    "forum.reply",
    2,
    "Reply to the thread “{title}” with: {body}",
    "Post this reply in the thread “{title}”, word for word: {body}",
    "I'd like to answer in “{title}”. Post exactly this: {body}",
)
def reply(scene: WebScene) -> WebDraft:
    """Reply to a thread."""
    thread = scene.choice(threads(scene, "NOT locked"))
    body = scene.choice(SENTENCES)
    return WebDraft(
        words={"title": thread["title"], "body": body},
        plan=[*open_thread(thread["title"]), fill("Your reply", body), button("Post reply")],
        effect=[reply_change(thread["id"], body)],
        checks=[
            exists("replied", f"post WHERE thread_id = ? AND author_id = {ME} AND written_at = {NOW}", thread["id"])
        ],
    )


@family(
    "forum.vote",
    2,
    "{way} post #{number} in the thread “{title}”.",
    "In “{title}” there is a post #{number}. {way} it, please.",
    "Please go to post #{number} of the thread “{title}”. {way} it.",
)
def vote(scene: WebScene) -> WebDraft:
    """Vote on a post."""
    post = scene.choice(posts(scene, f"posts.author_id <> {ME}"))
    way, value = scene.choice((("Upvote", 1), ("Downvote", -1)))
    return WebDraft(
        words={"title": post["title"], "number": post["number"], "way": way},
        plan=[*open_post(post), button(f"{way} #{post['number']}")],
        effect=[("INSERT INTO vote VALUES (?, ?)", [post["id"], value])],
        checks=[exists("voted", "vote WHERE post_id = ? AND value = ?", post["id"], value)],
    )


@family(
    "forum.profile",
    2,
    "Change my city in the forum to {city} and the text about me to: {about}",
    "I moved to {city}. Put that into my forum profile, and let the “About me” text be: {about}",
    "Please update my forum profile: the city is now {city}, and the text about me should be: {about}",
)
def profile(scene: WebScene) -> WebDraft:
    """Change one's own profile."""
    city = scene.pick(
        f"SELECT DISTINCT city FROM member WHERE city <> (SELECT city FROM member WHERE id = {ME}) ORDER BY 1"
    )
    about = scene.choice(("Always learning.", "Former chef, now with more time.", "Two cats, one bike, no plan"))
    plan = [link("Settings"), fill("City", city["city"]), fill("About me", about), button("Save profile")]
    return WebDraft(
        words={"city": city["city"], "about": about},
        plan=plan,
        effect=[(f"UPDATE member SET city = ?, about = ? WHERE id = {ME}", [city["city"], about])],
        checks=[
            exists("city", f"member WHERE id = {ME} AND city = ?", city["city"]),
            exists("about", f"member WHERE id = {ME} AND about = ?", about),
        ],
    )


@family(
    "forum.new_thread",
    2,
    "Start a thread in {board} with the title “{title}” and the text: {body}",
    "Open a new thread called “{title}” in the board {board}. Its text is: {body}",
    "Please post a new thread in the board {board}, titled “{title}”, with this text: {body}",
)
def new_thread(scene: WebScene) -> WebDraft:
    """Start a thread."""
    board = scene.pick("SELECT * FROM board ORDER BY id")
    title, body = scene.choice(_TITLES), scene.choice(SENTENCES)
    plan = [link(board["name"]), link("New thread"), fill("Title", title), fill("Text", body)]
    return WebDraft(
        words={"board": board["name"], "title": title, "body": body},
        plan=[*plan, button("Start thread")],
        effect=thread_changes(board["id"], title, body),
        checks=[exists("started", "thread WHERE board_id = ? AND title = ?", board["id"], title)],
    )


@family(
    "forum.report",
    3,
    "Report the post of {author} in the thread “{title}” to the moderator. The reason is “{reason}”, and the comment: "
    "{comment}",
    "{author} wrote something in “{title}” that should be reported for the reason “{reason}”, with the comment: "
    "{comment}",
    "Please tell the moderator about the post of {author} in “{title}”: report it with the reason “{reason}” "
    "and the comment: {comment}",
)
def report(scene: WebScene) -> WebDraft:
    """Report somebody's only post in a thread."""
    post = scene.choice(posts(scene, f"posts.author_id <> {ME} AND number > 1"))
    scene.only("SELECT 1 FROM post WHERE thread_id = ? AND author_id = ?", post["thread_id"], post["author_id"])
    reason = scene.choice(REASONS)
    comment = scene.choice(("Please have a look.", "Not the first time.", "This could hurt somebody!"))
    plan = [*open_post(post), link(f"Report #{post['number']}"), choose(reason), fill("Comment (optional)", comment)]
    return WebDraft(
        words={"title": post["title"], "author": post["author"], "reason": reason, "comment": comment},
        plan=[*plan, button("Send report")],
        effect=[(f"INSERT INTO report VALUES (?, ?, ?, {NOW})", [post["id"], reason, comment])],
        checks=[
            exists("reported", "report WHERE post_id = ?", post["id"]),
            exists("reason", "report WHERE post_id = ? AND reason = ?", post["id"], reason),
        ],
    )


@family(
    "forum.edit",
    3,
    "Replace the text of my post in the thread “{title}” with: {body}",
    "I wrote one post in “{title}”. Edit it so that it only says: {body}",
    "Please change my post in “{title}” so that its whole text is: {body}",
)
def edit(scene: WebScene) -> WebDraft:
    """Edit one's own only post in a thread."""
    post = scene.choice(posts(scene, f"posts.author_id = {ME} AND NOT locked"))
    scene.only(f"SELECT 1 FROM post WHERE thread_id = ? AND author_id = {ME}", post["thread_id"])
    body = scene.choice([text for text in SENTENCES if text != post["body"]])
    plan = [*open_post(post), link(f"Edit #{post['number']}"), fill("Text", body), button("Save post")]
    return WebDraft(
        words={"title": post["title"], "body": body},
        plan=plan,
        effect=[(f"UPDATE post SET body = ?, edited_at = {NOW} WHERE id = ?", [body, post["id"]])],
        checks=[check("edited", "SELECT body = ? FROM post WHERE id = ?", body, post["id"])],
    )


@family(
    "forum.thank_best",
    4,
    "In “{title}”, upvote the reply with the most points (the first post does not count), then reply: {body} Also "
    "subscribe to the thread.",
    "Find the reply that got the most points in the thread “{title}” (leaving the opening post aside) and upvote it. "
    "Subscribe to the thread as well, and post this reply: {body}",
    "Which reply in “{title}”, not counting the opening post, has the most points? Give it an upvote, "
    "subscribe to the thread, and post this reply: {body}",
)
def thank_best(scene: WebScene) -> WebDraft:
    """Vote for the best reply in a thread, subscribe and reply."""
    thread = scene.choice(
        threads(scene, "NOT locked AND replies BETWEEN 3 AND 7 AND id NOT IN (SELECT thread_id FROM subscription)")
    )
    replies = sorted(posts(scene, "thread_id = ? AND number > 1", thread["id"]), key=lambda row: -row["score"])
    best = replies[0]
    scene.need(best["score"] > replies[1]["score"] and best["author_id"] != scene.value(f"SELECT {ME}"))
    body = scene.choice(SENTENCES[:6])
    plan = [*open_thread(thread["title"]), button("Subscribe"), button(f"Upvote #{best['number']}")]
    return WebDraft(
        words={"title": thread["title"], "body": body},
        plan=[*plan, fill("Your reply", body), button("Post reply")],
        effect=[
            ("INSERT INTO subscription VALUES (?)", [thread["id"]]),
            ("INSERT INTO vote VALUES (?, 1)", [best["id"]]),
            reply_change(thread["id"], body),
        ],
        checks=[
            exists("subscribed", "subscription WHERE thread_id = ?", thread["id"]),
            exists("voted", "vote WHERE post_id = ? AND value = 1", best["id"]),
            exists("replied", f"post WHERE thread_id = ? AND author_id = {ME} AND written_at = {NOW}", thread["id"]),
        ],
    )


@family(
    "forum.follow_up",
    4,
    "Reply “{body}” in the thread “{title}”. If it is locked, start a new thread in the same board instead, with the "
    "title “Follow-up: {title}” and that text.",
    "I want to say “{body}” in “{title}”. Should nobody be able to reply there any more, open a thread called "
    "“Follow-up: {title}” with the same text in the board where the old one is.",
    "Please post “{body}” as a reply in “{title}”. Only if that thread is locked, open a new one in its "
    "board instead, called “Follow-up: {title}”, with this same text.",
)
def follow_up(scene: WebScene) -> WebDraft:
    """Reply, or start a new thread if the old one is locked."""
    thread = scene.choice(threads(scene, "locked" if scene.rng.random() < 0.5 else "NOT locked"))
    body = scene.choice(SENTENCES)
    words = {"title": thread["title"], "body": body}
    plan = open_thread(thread["title"])
    if not thread["locked"]:
        return WebDraft(
            words=words,
            plan=[*plan, fill("Your reply", body), button("Post reply")],
            effect=[reply_change(thread["id"], body)],
            checks=[
                exists("replied", f"post WHERE thread_id = ? AND written_at = {NOW} AND body = ?", thread["id"], body)
            ],
        )
    title = f"Follow-up: {thread['title']}"
    plan = [*plan, link(thread["board"]), link("New thread"), fill("Title", title), fill("Text", body)]
    return WebDraft(
        words=words,
        plan=[*plan, button("Start thread")],
        effect=thread_changes(thread["board_id"], title, body),
        checks=[exists("started", "thread WHERE title = ?", title)],
    )


@family(
    "forum.edit_locked",
    4,
    "Delete my post in the thread “{title}”. If that cannot be done, change nothing and answer “impossible”.",
    "Please take away the post that I wrote in “{title}”; if the forum does not allow it, answer “impossible” and "
    "leave "
    "everything as it is.",
    "I would like my post in “{title}” to be gone. Delete it if the forum lets you; if not, change nothing "
    "and answer “impossible”.",
)
def edit_locked(scene: WebScene) -> WebDraft:
    """Find that a post in a locked thread cannot be deleted."""
    post = scene.choice(posts(scene, f"posts.author_id = {ME} AND locked"))
    scene.only(f"SELECT 1 FROM post WHERE thread_id = ? AND author_id = {ME}", post["thread_id"])
    plan = [*open_post(post), answer(IMPOSSIBLE)]
    return WebDraft(words={"title": post["title"]}, plan=plan, answer=IMPOSSIBLE)
