"""Helpers of the mail site's families: steps that find messages, and the effects of sending on the mailbox."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from agentgym.tasks.web.family import Change, Step, WebScene
from agentgym.tasks.web.plan import button, fill, link, select, tick
from agentgym.tasks.web.sites.mail.fill import DRAFTS, INBOX, SENT
from agentgym.tasks.web.sites.office import fold
from agentgym.tasks.web.sites.pages import moment

PAGE = 10
"""Messages on one page of results."""
SENT_TO = f"messages WHERE folder = {SENT} AND recipients = ? AND subject = ?"
"""SQL condition of a sent message, for checks."""
TEXTS = (
    "Thank you, that is all I needed.",
    "Please send me the final version by Friday.",
    "I'd rather talk about it in person; are you in the office on Monday?",
    'We call it "plan B" from now on.',
    "Great news! See you at the café.",
    "Could you double-check the figures & call me back?",
    "Fine by me, but not before 10:30.",
    "The key is with Zoë at the reception.",
    "No objections. Let's go ahead.",
    "Sorry for the late answer: yes, please order two more.",
)
SUBJECTS = (
    "Room for next week", "Key handover", "Lunch on Thursday?", "Your parcel", "Team photo", "Price list", "New badge",
    "Parking space 14", "Holiday cover", "Q3 numbers",
)  # fmt: skip


def pick_message(scene: WebScene, condition: str = "1", *params: Any) -> sqlite3.Row:
    """Return a received message that its sender and subject identify."""
    message = scene.pick(f"SELECT * FROM messages WHERE folder NOT IN ({SENT}, {DRAFTS}) AND ({condition})", *params)
    return named_message(scene, message["subject"], message["sender_name"])


def named_message(scene: WebScene, subject: str, sender_name: str) -> sqlite3.Row:
    """Return the only message with that sender and subject."""
    return scene.only("SELECT * FROM messages WHERE subject = ? AND sender_name = ?", subject, sender_name)


def find(words: str) -> list[Step]:
    """Return the steps that search the whole mailbox."""
    return [fill("Search mail", words, role="searchbox"), button("Search")]


def open_message(scene: WebScene, message: sqlite3.Row) -> list[Step]:
    """Return the steps that find a message by its subject and open it."""
    rows = [
        row
        for row in scene.rows("SELECT * FROM messages ORDER BY sent_at DESC, id DESC")
        if fold(message["subject"]) in fold(f"{row['subject']}\n{row['body']}\n{row['sender_name']} {row['sender']}")
    ]
    place = next(place for place, row in enumerate(rows) if row["id"] == message["id"])
    scene.need(place < PAGE)
    same = [row["id"] for row in rows[:PAGE] if row["subject"] == message["subject"]]
    nth = same.index(message["id"]) if len(same) > 1 else None
    return [*find(message["subject"]), link(message["subject"], nth=nth)]


def search_inbox(sender: str) -> list[Step]:
    """Return the steps that list the messages from one sender in the inbox."""
    return [button("Search"), fill("From", sender), select("Folder", "Inbox"), button("Find messages")]


def inbox_from(scene: WebScene, least: int, most: int, condition: str = "1") -> tuple[sqlite3.Row, list[sqlite3.Row]]:
    """Return a contact and their messages in the inbox (as many as asked for), newest first."""
    sql = f"SELECT * FROM messages WHERE folder = {INBOX} AND sender = ? AND ({condition}) ORDER BY sent_at DESC"
    fitting = []
    for contact in scene.rows("SELECT * FROM contacts ORDER BY id"):
        messages = scene.rows(sql, contact["address"])
        if least <= len(messages) <= most and search_is_exact(scene, contact):
            fitting.append((contact, messages))
    return scene.choice(fitting)


def search_is_exact(scene: WebScene, contact: sqlite3.Row) -> bool:
    """Return whether a search for the contact's address matches nobody else."""
    senders = scene.rows("SELECT DISTINCT sender_name, sender FROM messages")
    return all(
        row["sender"] == contact["address"] or fold(contact["address"]) not in fold(f"{row[0]} {row[1]}")
        for row in senders
    )


def with_chosen(messages: Sequence[sqlite3.Row], action: str) -> list[Step]:
    """Return the steps that tick messages in the current list and apply an action to them."""
    boxes = [tick(f"Choose “{row['subject']}”, {moment(row['sent_at'])}") for row in messages]
    return [*boxes, select("With the chosen messages", action), button("Apply")]


def sending(
    scene: WebScene,
    to: str,
    subject: str,
    body: str,
    cc: str = "",
    replies_to: sqlite3.Row | None = None,
    forwards: sqlite3.Row | None = None,
) -> Change:
    """Return the change that sending one message makes to the mailbox, without forwarded attachments."""
    account = scene.one("SELECT * FROM account")
    origin = replies_to or forwards
    sql = (
        "INSERT INTO messages (thread, folder, sender_name, sender, recipients, cc, subject, body, sent_at, "
        "replies_to, forwards) VALUES (coalesce(?, (SELECT max(thread) + 1 FROM messages)), ?, ?, ?, ?, ?, ?, ?, ?, "
        "?, ?)"
    )
    thread = origin["thread"] if origin else None
    links = (replies_to["id"] if replies_to else None, forwards["id"] if forwards else None)
    return sql, [thread, SENT, account["name"], account["address"], to, cc, subject, body, scene.now, *links]


def forwarding(scene: WebScene, message: sqlite3.Row, to: str, body: str) -> list[Change]:
    """Return the changes that forwarding one message makes to the mailbox."""
    copy = (
        "INSERT INTO attachments (message, name, kilobytes) SELECT (SELECT max(id) FROM messages), name, kilobytes "
        "FROM attachments WHERE message = ? ORDER BY id"
    )
    return [sending(scene, to, f"Fwd: {message['subject']}", body, forwards=message), (copy, [message["id"]])]


def write_to(contact: sqlite3.Row, subject: str, text: str) -> list[Step]:
    """Return the steps that look up a contact and send them a message."""
    steps = [link("Contacts"), fill("Name, address, company or note", contact["name"]), button("Find contacts")]
    steps += [link(contact["name"]), link("Write a message"), fill("Subject", subject), fill("Text", text)]
    return [*steps, button("Send")]
