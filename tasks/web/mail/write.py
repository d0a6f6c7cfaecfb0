"""Families of the mail site: writing, answering and forwarding."""

from __future__ import annotations

from agentgym.tasks.web.checks import exists
from agentgym.tasks.web.family import WebDraft, WebScene, family
from agentgym.tasks.web.mail.steps import (
    SENT_TO,
    SUBJECTS,
    TEXTS,
    forwarding,
    open_message,
    pick_message,
    sending,
    write_to,
)
from agentgym.tasks.web.plan import button, fill, link
from agentgym.tasks.web.sites.mail.compose import prefixed, receivers
from agentgym.tasks.web.sites.mail.fill import DRAFTS, INBOX, SENT


@family(
    "mail.send",
    2,
    "Write to {name} (the address is in my contacts). Subject: “{subject}”. Text: “{text}”",
    "Send {name}, who is in the address book, a message with the subject “{subject}” and exactly this text: “{text}”",
    "Please send a message to {name} from my contacts. The subject is “{subject}”, and the text is exactly "
    "this: “{text}”",
)
def send(scene: WebScene) -> WebDraft:
    """Look up an address and write to it."""
    contact = scene.pick("SELECT * FROM contacts")
    subject, text = scene.choice(SUBJECTS), scene.choice(TEXTS)
    return WebDraft(
        write_to(contact, subject, text),
        {"name": contact["name"], "subject": subject, "text": text},
        [sending(scene, contact["address"], subject, text)],
        checks=[exists("sent", SENT_TO, contact["address"], subject)],
    )


@family(
    "mail.reply",
    2,
    "Reply to {sender}'s message “{subject}” with exactly this text: “{text}”",
    "Answer the mail “{subject}” from {sender} (only to them). The text is: “{text}”",
    "Please answer {sender}, and nobody else, about “{subject}”. Write exactly this: “{text}”",
)
def reply(scene: WebScene) -> WebDraft:
    """Reply to one message."""
    message = pick_message(scene, "folder = ? AND subject NOT LIKE '%newsletter%'", INBOX)
    text, subject = scene.choice(TEXTS), prefixed("Re", message["subject"])
    return WebDraft(
        [*open_message(scene, message), link("Reply"), fill("Text", text), button("Send")],
        {"sender": message["sender_name"], "subject": message["subject"], "text": text},
        [sending(scene, message["sender"], subject, text, replies_to=message)],
        checks=[exists("answered", "messages WHERE replies_to = ? AND sent_at = ?", message["id"], scene.now)],
    )


@family(
    "mail.reply_all",
    3,
    "Reply to everybody who got {sender}'s message “{subject}”. Text: “{text}”",
    "Answer “{subject}” from {sender}, and let everyone in the conversation see it. Write exactly: “{text}”",
    "Please reply to {sender}'s message “{subject}” so that all who received it get the answer. The text is "
    "exactly: “{text}”",
)
def reply_all(scene: WebScene) -> WebDraft:
    """Reply to all."""
    message = pick_message(scene, "cc <> '' AND folder = ?", INBOX)
    text, subject = scene.choice(TEXTS), prefixed("Re", message["subject"])
    mine = scene.value("SELECT address FROM account")
    to, cc = receivers(message["sender"], message["recipients"], message["cc"], mine, everybody=True)
    return WebDraft(
        [*open_message(scene, message), link("Reply to all"), fill("Text", text), button("Send")],
        {"sender": message["sender_name"], "subject": message["subject"], "text": text},
        [sending(scene, to, subject, text, cc=cc, replies_to=message)],
        checks=[
            exists("answered", "messages WHERE replies_to = ? AND sent_at = ?", message["id"], scene.now),
            exists("copies", "messages WHERE replies_to = ? AND sent_at = ? AND cc = ?", message["id"], scene.now, cc),
        ],
    )


@family(
    "mail.forward",
    3,
    "Forward the message “{subject}” from {sender} to {name} (see my contacts), with this text: “{text}”",
    "{name} from the address book should get the mail “{subject}” that {sender} sent, with its attachments. Forward it "
    "and write exactly: “{text}”",
    "Please pass {sender}'s message “{subject}” on to {name}, whose address is in my contacts. Forward it "
    "with exactly this text: “{text}”",
)
def forward(scene: WebScene) -> WebDraft:
    """Forward a message with attachments."""
    message = pick_message(scene, "id IN (SELECT message FROM attachments) AND folder = ?", INBOX)
    contact = scene.pick("SELECT * FROM contacts WHERE address <> ?", message["sender"])
    text = scene.choice(TEXTS)
    steps = [link("Forward"), fill("To", contact["address"]), fill("Text", text), button("Send")]
    return WebDraft(
        [*open_message(scene, message), *steps],
        {"subject": message["subject"], "sender": message["sender_name"], "name": contact["name"], "text": text},
        forwarding(scene, message, contact["address"], text),
        checks=[
            exists("forwarded", "messages WHERE forwards = ?", message["id"]),
            exists("to the right person", SENT_TO, contact["address"], prefixed("Fwd", message["subject"])),
        ],
    )


@family(
    "mail.finish_draft",
    3,
    "There is an unfinished draft “{old}”. Change its subject to “{subject}”, add {name} (from my contacts) in Cc, "
    "and send it.",
    "Finish the draft “{old}”: new subject “{subject}”, a copy to {name} from the address book. Then send it.",
    "Please send the draft “{old}”, but first change its subject to “{subject}” and put {name} (see my "
    "contacts) in copy.",
)
def finish_draft(scene: WebScene) -> WebDraft:
    """Change a draft and send it."""
    draft = scene.pick("SELECT * FROM messages WHERE folder = ?", DRAFTS)
    scene.only("SELECT 1 FROM messages WHERE folder = ? AND subject = ?", DRAFTS, draft["subject"])
    contact = scene.pick("SELECT * FROM contacts WHERE address <> ?", draft["recipients"])
    subject = scene.choice(SUBJECTS)
    steps = [link("Drafts"), link(draft["subject"]), fill("Copy to", contact["address"]), fill("Subject", subject)]
    change = "UPDATE messages SET cc = ?, subject = ?, folder = ?, sent_at = ? WHERE id = ?"
    return WebDraft(
        [*steps, button("Send")],
        {"old": draft["subject"], "subject": subject, "name": contact["name"]},
        [(change, [contact["address"], subject, SENT, scene.now, draft["id"]])],
        checks=[
            exists("sent", "messages WHERE folder = ? AND id = ?", SENT, draft["id"]),
            exists(
                "changed", "messages WHERE subject = ? AND cc = ? AND id = ?", subject, contact["address"], draft["id"]
            ),
        ],
    )
