"""Players of MiniWoB++ pages with a mail client, posts or search results."""

from __future__ import annotations

import re

from agentgym.core.engine.steps import Solution
from agentgym.core.messages import ToolCall
from agentgym.envs.web.miniwob.solutions.registry import Sight, click, number, player
from agentgym.tools.browser import ViewNode

_IN_MENU = ("Reply", "Retweet", "Like")


@player("social-media")
def press_on_post(sight: Sight) -> Solution:
    """Press a button of a user's post; some are in its menu."""
    user, action = sight.words(r'user (@\S+), click on the "(.+)" button')
    place = _posts(sight, user)[0]
    if action not in _IN_MENU:
        yield sight.click("button", "More", nth=place)
        yield click(next(node for node in sight.look().nodes if node.ref and node.label.startswith(action)))
        return
    yield sight.click("button", action, nth=place)


@player("social-media-all")
def press_on_all_posts(sight: Sight) -> Solution:
    """Press a button of all posts of a user, then submit."""
    action, user = sight.words(r'the "(.+)" button on all posts by (@\S+) and')
    for place in _posts(sight, user):
        yield sight.click("button", action, nth=place)
    yield sight.click("button", "Submit")


@player("social-media-some")
def press_on_some_posts(sight: Sight) -> Solution:
    """Press a button of the requested number of a user's posts, then submit."""
    action, count, user = sight.words(r'the "(.+)" button on (\d+) posts? by (@\S+) and')
    for place in _posts(sight, user)[: int(count)]:
        yield sight.click("button", action, nth=place)
    yield sight.click("button", "Submit")


@player("search-engine")
def find_result(sight: Sight) -> Solution:
    """Search, turn the pages, click the result of a number."""
    text, place = sight.words(r'enter "(.+)" and press "Search", then find and click the (\w+) search result')
    yield sight.type(text)
    yield sight.click("button", "Search")
    page, row = divmod(number(place), 3)
    if page:
        yield sight.click("link", str(page + 1))
    yield click(_results(sight)[row])


def _posts(sight: Sight, user: str) -> list[int]:
    """Return the indices of a user's posts among all posts; each starts with a name and a user."""
    users = [match[1] for node in sight.look().nodes if (match := re.fullmatch(r"[\w' -]+ (@\S+)", node.value))]
    return [place for place, name in enumerate(users) if name == user]


def _results(sight: Sight) -> list[ViewNode]:
    return [node for node in sight.all("link") if not node.name.strip("<>").isdecimal() and node.name not in "<>"]


@player(
    "email-inbox",
    "email-inbox-delete",
    "email-inbox-forward",
    "email-inbox-important",
    "email-inbox-noscroll",
    "email-inbox-reply",
    "email-inbox-star-reply",
)
def handle_mail(sight: Sight) -> Solution:
    """Delete, star, answer or forward the mail of a sender."""
    (sender,) = sight.words(r"email by (.+?) and")
    if "trash" in sight.instruction or "star icon" in sight.instruction:
        yield sight.click("button", "Delete" if "trash" in sight.instruction else "Star", within=sender)
        return
    yield click(_mail_of(sight, sender))
    if match := re.search(r'with the text "(.*)"', sight.instruction):
        yield sight.click("button", "Reply")
        yield sight.type(match[1])
    else:
        (receiver,) = sight.words(r"forward that email to (.+)\.")
        yield sight.click("button", "Forward")
        yield ToolCall("type", {"ref": sight.all("textbox", "to")[0].ref, "text": receiver})
    yield sight.click("button", "Send")


@player("email-inbox-forward-nl", "email-inbox-forward-nl-turk", "email-inbox-nl-turk")
def handle_mail_in_own_words(sight: Sight) -> Solution:
    """Do what an instruction in a person's own words asks for, given the fields that the page knows it by."""
    fields = sight.read("core.getUtterance().fields")
    kind, sender = fields.get("task", "forward"), fields["by"]
    if kind in ("delete", "star"):
        yield sight.click("button", {"delete": "Delete", "star": "Star"}[kind], within=sender)
        return
    yield click(_mail_of(sight, sender))
    if kind == "reply":
        yield sight.click("button", "Reply")
        yield sight.type(fields["message"])
    else:
        yield sight.click("button", "Forward")
        yield ToolCall("type", {"ref": sight.all("textbox", "to")[0].ref, "text": fields["to"]})
    yield sight.click("button", "Send")


def _mail_of(sight: Sight, sender: str):
    view = sight.look()
    threads = [i for i, node in enumerate(view.nodes) if node.role == "generic" and node.ref]
    return next(view.nodes[i] for i in threads if view.text_of(i).split()[:1] == [sender])
