"""Forum: families that find something out."""

from __future__ import annotations

from agentgym.base.choices import count_of
from agentgym.tasks.web.family import WebDraft, WebScene, family
from agentgym.tasks.web.forum.steps import open_post, open_thread, posts, threads
from agentgym.tasks.web.plan import answer, button, fill, link, select
from agentgym.tasks.web.sites.forum.moderate import MEMBERS
from agentgym.tasks.web.sites.pages import day


@family(
    "forum.author",
    1,
    "Who started the thread “{title}”? Answer with the name.",
    "Please find out which member opened the thread “{title}” in the forum.",
    "The thread “{title}”: who opened it? Answer with the name.",
)
def author(scene: WebScene) -> WebDraft:
    """Ask who started a thread."""
    thread = scene.choice(threads(scene))
    plan = [*open_thread(thread["title"]), answer(thread["author"])]
    return WebDraft(words={"title": thread["title"]}, plan=plan, answer=thread["author"])


@family(
    "forum.member",
    1,
    "{question} the forum member {name}? {how}",
    "In the forum's list of members, look up {name}. {question} this member? {how}",
    "I am curious about a forum member. {question} {name}? {how}",
)
def member(scene: WebScene) -> WebDraft:
    """Ask for a detail of a member."""
    person = scene.pick(f"SELECT * FROM ({MEMBERS}) WHERE id > 1 ORDER BY id")
    question, how, detail = scene.choice(
        [
            ("Which city is given for", "Answer with the city.", person["city"]),
            ("How many posts are counted for", "Answer with the number.", str(person["posts"])),
            ("What is the joining date of", "Answer as the page shows it.", day(person["joined_on"])),
        ]
    )
    plan = [link("Members"), fill("Name", person["name"]), button("Show"), answer(detail)]
    return WebDraft(words={"name": person["name"], "question": question, "how": how}, plan=plan, answer=detail)


@family(
    "forum.most_replies",
    2,
    "Which thread in the board {board} has the most replies? Answer with its title.",
    "What is the title of the thread with the largest number of replies in {board}?",
    "Looking at the board {board}: what is the thread with the most replies called?",
)
def most_replies(scene: WebScene) -> WebDraft:
    """Ask for the longest thread of a board."""
    board = scene.pick("SELECT * FROM board ORDER BY id")
    first, second = sorted(threads(scene, "board_id = ?", board["id"]), key=lambda row: -row["replies"])[:2]
    scene.need(first["replies"] > second["replies"])
    plan = [link(board["name"]), select("Sort by", "Most replies"), button("Sort"), answer(first["title"])]
    return WebDraft(words={"board": board["name"]}, plan=plan, answer=first["title"])


@family(
    "forum.best_post",
    3,
    "In the thread “{title}”, which member wrote the reply with the most points? The first post does not count. Answer "
    "with the name.",
    "Look at the replies (not the opening post) in “{title}”. Who wrote the one with the highest number of points?",
    "Who wrote the reply with the most points in “{title}”? Leave the opening post out of account, and "
    "answer with the name.",
)
def best_post(scene: WebScene) -> WebDraft:
    """Ask who wrote the best reply of a thread."""
    thread = scene.choice(threads(scene, "replies >= 4"))
    replies = sorted(posts(scene, "thread_id = ? AND number > 1", thread["id"]), key=lambda row: -row["score"])
    scene.need(replies[0]["score"] > replies[1]["score"])
    plan = [*open_post(posts(scene, "thread_id = ?", thread["id"])[-1]), answer(replies[0]["author"])]
    return WebDraft(words={"title": thread["title"]}, plan=plan, answer=replies[0]["author"])


@family(
    "forum.count_threads",
    5,
    "How many threads did {name} start that have more than {replies}? Answer with the number.",
    "Count the threads that were started by {name} and have more than {replies}.",
    "Among the threads started by {name}, how many have more than {replies}? Answer with the number.",
)
def count_threads(scene: WebScene) -> WebDraft:
    """Ask how many of a member's threads are long."""
    author = scene.pick(
        "SELECT member.* FROM member JOIN thread ON author_id = member.id WHERE member.id > 1 GROUP BY member.id "
        "HAVING count(*) BETWEEN 4 AND 18 ORDER BY member.id"
    )
    least = scene.rng.randint(1, 5)
    own = [row["replies"] for row in threads(scene, "author_id = ?", author["id"])]
    scene.need(len(own) == scene.value("SELECT count(*) FROM thread WHERE author_id = ?", author["id"]))
    count = str(sum(replies > least for replies in own))
    plan = [link("Members"), fill("Name", author["name"]), button("Show"), link(author["name"])]
    plan += [link("Next page")] * ((len(own) - 1) // 10)
    return WebDraft(
        words={"name": author["name"], "replies": count_of(least, "reply", "replies")},
        plan=[*plan, answer(count)],
        answer=count,
    )
