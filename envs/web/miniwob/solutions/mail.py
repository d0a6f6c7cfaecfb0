"""Players of MiniWoB++ pages with a mail client."""

from __future__ import annotations

import re

from agentgym.core.engine.steps import Solution
from agentgym.core.messages import ToolCall
from agentgym.envs.web.miniwob.solutions.registry import Sight, click, player


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
