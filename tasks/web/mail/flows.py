"""Families of the mail site: read first, then decide, write or forward."""

from __future__ import annotations

import re
from datetime import date, timedelta

from agentgym.tasks.web.checks import check, exists
from agentgym.tasks.web.family import IMPOSSIBLE, WebDraft, WebScene, family
from agentgym.tasks.web.mail.steps import (
    SENT_TO,
    SUBJECTS,
    TEXTS,
    forwarding,
    named_message,
    open_message,
    pick_message,
    sending,
    write_to,
)
from agentgym.tasks.web.plan import answer, button, choose, fill, link
from agentgym.tasks.web.sites.mail.fill import BIN, INBOX
from agentgym.tasks.web.sites.office import MONTHS


@family(
    "mail.yes_or_no",
    4,
    "Look at what {sender} answered last in the conversation “{subject}”. If it is a yes, reply to that answer with "
    "exactly this text: “{text}” If it is a no, delete that answer (and nothing else) instead.",
    "Did {sender} say yes or no in the latest answer in “{subject}”? On a yes, reply to it: “{text}” On a no, do not "
    "reply, but move that answer to the bin.",
    "Read the last answer from {sender} in the conversation “{subject}”. Was it a yes? Then reply to it with "
    "exactly this text: “{text}” Was it a no? Then delete that answer, and do not reply.",
)
def yes_or_no(scene: WebScene) -> WebDraft:
    """Read an answer and act on it."""
    account = scene.one("SELECT * FROM account")
    last = scene.pick(
        "SELECT * FROM messages WHERE folder = ? AND sender <> ? AND replies_to IS NOT NULL", INBOX, account["address"]
    )
    named_message(scene, last["subject"], last["sender_name"])
    agreed = "\nYes" in last["body"]
    scene.need(agreed or "\nNo" in last["body"])
    text, subject = scene.choice(TEXTS), last["subject"].removeprefix("Re: ")
    scene.only("SELECT 1 FROM messages WHERE subject = ? AND sender = ?", subject, last["sender"])
    words = {"sender": last["sender_name"], "subject": subject, "text": text}
    if agreed:
        return WebDraft(
            [*open_message(scene, last), link("Reply"), fill("Text", text), button("Send")],
            words,
            [sending(scene, last["sender"], last["subject"], text, replies_to=last)],
            checks=[exists("answered", "messages WHERE replies_to = ? AND sent_at = ?", last["id"], scene.now)],
        )
    return WebDraft(
        [*open_message(scene, last), button("Delete")],
        words,
        [("UPDATE messages SET folder = ? WHERE id = ?", [BIN, last["id"]])],
        checks=[exists("deleted", "messages WHERE id = ? AND folder = ?", last["id"], BIN)],
    )


@family(
    "mail.highest_invoice",
    4,
    "Of all invoices in the inbox, forward the one with the highest total to {name} (see my contacts) and write "
    "“{text}”",
    "{name} from the address book pays the largest invoice in my inbox (by its total in EUR). Forward that one to them "
    "with exactly this text: “{text}”",
    "Look through the invoices in my inbox and find the one with the highest total. Forward it to {name}, "
    "whose address is in my contacts, with exactly this text: “{text}”",
)
def highest_invoice(scene: WebScene) -> WebDraft:
    """Compare several messages and forward one."""
    sql = "SELECT * FROM messages WHERE folder = ? AND subject LIKE 'Invoice 20%'"
    totals = sorted((_total(row["body"]), row["id"]) for row in scene.rows(sql, INBOX))
    scene.need(len(totals) > 1 and totals[-1][0] > totals[-2][0])
    message = scene.one("SELECT * FROM messages WHERE id = ?", totals[-1][1])
    contact = scene.pick("SELECT * FROM contacts WHERE address <> ?", message["sender"])
    text = scene.choice(TEXTS)
    reading = [step for _, number in totals for step in open_message(scene, _message(scene, number))]
    steps = [link("Forward"), fill("To", contact["address"]), fill("Text", text), button("Send")]
    return WebDraft(
        [*reading, *steps],
        {"name": contact["name"], "text": text},
        forwarding(scene, message, contact["address"], text),
        checks=[
            exists(
                "an invoice forwarded", "messages WHERE forwards IS NOT NULL AND recipients = ?", contact["address"]
            ),
            exists("the right one", "messages WHERE forwards = ?", message["id"]),
        ],
    )


@family(
    "mail.handover",
    5,
    "{sender} asks in “{subject}” who takes over from somebody who is leaving. Write to the person who is leaving "
    "(they are in my contacts) with the subject “{new}” and the text “{text}”, then move {sender}'s message "
    "to the archive.",
    "In “{subject}”, {sender} names a colleague who is leaving the team. Look the colleague up in my contacts, send "
    "them “{text}” under the subject “{new}”, and archive {sender}'s message afterwards.",
    "Read “{subject}” from {sender}: it says which colleague is leaving. That person is in my contacts; send "
    "them a message with the subject “{new}” and the text “{text}” After that, archive the message from "
    "{sender}.",
)
def handover(scene: WebScene) -> WebDraft:
    """Follow a message to a person, then to another message, and back."""
    message = pick_message(scene, "subject LIKE 'Who takes over%' AND folder = ?", INBOX)
    match = re.search(r"\n\n(.+) leaves the team on", message["body"])
    contact = scene.only("SELECT * FROM contacts WHERE name = ?", match[1] if match else "")
    subject, text = scene.choice(SUBJECTS), scene.choice(TEXTS)
    opening = open_message(scene, message)
    return WebDraft(
        [*opening, *write_to(contact, subject, text), *opening, button("Archive")],
        {"sender": message["sender_name"], "subject": message["subject"], "new": subject, "text": text},
        [
            sending(scene, contact["address"], subject, text),
            ("UPDATE messages SET folder = 4 WHERE id = ?", [message["id"]]),
        ],
        checks=[
            exists("written", SENT_TO, contact["address"], subject),
            exists("archived", "messages WHERE id = ? AND folder = 4", message["id"]),
        ],
    )


@family(
    "mail.trip",
    5,
    "I travel to {city}; {sender} sent me the booking. Set the vacation responder from the day of that booking for "
    "{days} days in all, with the subject “{subject}” and the text “{text}”, and forward the booking to {name} (see "
    "my contacts) with the text “{note}”",
    "{sender} booked a room in {city} for me. Turn the vacation responder on, from the booked day on, for {days} days "
    "altogether (subject “{subject}”, text “{text}”). Then forward the booking to {name} from the address book: "
    "“{note}”",
    "My booking for {city} came from {sender}. Switch the vacation responder on for {days} days, the first "
    "being the day of the booking, with the subject “{subject}” and the text “{text}” Also forward the "
    "booking to {name} (see my contacts) and write: “{note}”",
)
def trip(scene: WebScene) -> WebDraft:
    """Copy a date from a message into a form, and forward the message."""
    message = pick_message(scene, "subject LIKE 'Your booking in %' AND folder NOT IN (?)", BIN)
    match = re.search(r"is booked for \w+, (\d+) (\w+) (\d+)\.", message["body"])
    scene.need(match)
    parts = match.groups() if match else ("1", "January", "2000")
    first = date(int(parts[2]), MONTHS.index(parts[1]) + 1, int(parts[0]))
    days = scene.rng.randrange(2, 9)
    last = first + timedelta(days=days - 1)
    contact = scene.pick("SELECT * FROM contacts WHERE address <> ?", message["sender"])
    subject, text, note = scene.choice(("Away", "Out of office", "On a trip")), *scene.rng.sample(TEXTS, 2)
    values = [("First day", str(first)), ("Last day", str(last)), ("Subject", subject), ("Text", text)]
    responder = [link("Vacation responder"), choose("On"), *(fill(*pair) for pair in values), button("Save responder")]
    passing_on = [link("Forward"), fill("To", contact["address"]), fill("Text", note), button("Send")]
    words = {
        "city": message["subject"].removeprefix("Your booking in "),
        "sender": message["sender_name"],
        "days": days,
    }
    change = "UPDATE vacation SET enabled = 1, first_day = ?, last_day = ?, subject = ?, body = ?"
    return WebDraft(
        [*open_message(scene, message), *responder, *open_message(scene, message), *passing_on],
        words | {"subject": subject, "text": text, "name": contact["name"], "note": note},
        [(change, [str(first), str(last), subject, text]), *forwarding(scene, message, contact["address"], note)],
        checks=[
            check("responder on", "SELECT enabled FROM vacation"),
            check("right days", "SELECT first_day = ? AND last_day = ? FROM vacation", str(first), str(last)),
            exists("forwarded", "messages WHERE forwards = ? AND recipients = ?", message["id"], contact["address"]),
        ],
    )


@family(
    "mail.forward_file",
    4,
    "Forward the message with the file “{file}” that {sender} sent me to {name} from my contacts, with the text "
    "“{text}” If there is no such file, change nothing and answer “impossible”.",
    "{name} (see my contacts) needs the file “{file}” that I got from {sender}. Forward its message and write “{text}” "
    "If I never got that file from {sender}, change nothing and answer “impossible”.",
    "Please look for a message from {sender} with the file “{file}” and forward it to {name} from the "
    "address book, with the text “{text}” If there is no such message, change nothing and answer "
    "“impossible”.",
)
def forward_file(scene: WebScene) -> WebDraft:
    """Forward a file that may not exist."""
    file = scene.pick(
        "SELECT a.name, m.* FROM attachments a JOIN messages m ON m.id = a.message WHERE m.folder NOT IN (2, 3, 5)"
    )
    scene.only("SELECT 1 FROM attachments WHERE name = ?", file["name"])
    message = named_message(scene, file["subject"], file["sender_name"])
    contact = scene.pick("SELECT * FROM contacts WHERE address <> ?", file["sender"])
    text = scene.choice(TEXTS)
    words = {"file": file["name"], "sender": file["sender_name"], "name": contact["name"], "text": text}
    if scene.rng.random() < 0.5:
        wrong = f"{file['name'].rpartition('.')[0]}-v2.{file['name'].rpartition('.')[2]}"
        looking = [button("Search"), fill("From", file["sender"]), button("Find messages")]
        return WebDraft([*looking, answer(IMPOSSIBLE)], words | {"file": wrong}, answer=IMPOSSIBLE)
    steps = [link("Forward"), fill("To", contact["address"]), fill("Text", text), button("Send")]
    return WebDraft(
        [*open_message(scene, message), *steps],
        words,
        forwarding(scene, message, contact["address"], text),
        checks=[exists("forwarded", "messages WHERE forwards = ?", message["id"])],
    )


def _total(body: str) -> float:
    match = re.search(r"total is ([\d.]+) EUR", body)
    return float(match[1]) if match else 0.0


def _message(scene: WebScene, number: int):
    return scene.one("SELECT * FROM messages WHERE id = ?", number)
