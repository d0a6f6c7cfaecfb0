"""Families of the mail site: looking things up and sorting messages."""

from __future__ import annotations

import re

from agentgym.tasks.web.checks import check, exists
from agentgym.tasks.web.family import WebDraft, WebScene, family
from agentgym.tasks.web.mail.steps import inbox_from, open_message, pick_message, search_inbox, with_chosen
from agentgym.tasks.web.plan import answer, button, fill, link, select
from agentgym.tasks.web.sites.mail.fill import ARCHIVE, BIN, INBOX, SPAM
from agentgym.tasks.web.sites.pages import day

FACTS = (
    ("the new door code", "New door code%", r"door code is (\d+)"),
    ("the tracking number", "Delivery of%", r"tracking number is ([A-Z]+-\d+)"),
    ("the confirmation number", "Your booking%", r"confirmation number is ([A-Z]+-\d+)"),
    ("the reference of the offer", "Offer for%", r"reference is ([A-Z]+-\d+)"),
    ("the new extension", "My new phone%", r"extension is (\d+)"),
    ("the discount code", "%newsletter%", r"Use code ([A-Z]+-\d+)"),
)


@family(
    "mail.file_size",
    1,
    "How large is the attachment “{file}” that {sender} sent with the message “{subject}”? Answer with the number of "
    "KB.",
    "{sender} wrote “{subject}”. What is the size of “{file}”, which is attached to it, in KB? Answer with a number "
    "only.",
    "Tell me the size in KB (just the number) of the file “{file}” in the mail “{subject}” from {sender}.",
)
def file_size(scene: WebScene) -> WebDraft:
    """Read the size of an attachment."""
    message = pick_message(scene, "id IN (SELECT message FROM attachments)")
    file = scene.pick("SELECT * FROM attachments WHERE message = ?", message["id"])
    size = f"{file['kilobytes']}"
    words = {"file": file["name"], "sender": message["sender_name"], "subject": message["subject"]}
    return WebDraft([*open_message(scene, message), answer(size)], words, answer=size)


@family(
    "mail.phone",
    1,
    "What is the phone number of {name} in the address book?",
    "Look up {name}'s phone number in my contacts.",
    "I want to call {name}. Which number do my contacts have for them?",
)
def phone(scene: WebScene) -> WebDraft:
    """Look up a contact."""
    contact = scene.pick("SELECT * FROM contacts WHERE phone <> ''")
    steps = [link("Contacts"), fill("Name, address, company or note", contact["name"]), button("Find contacts")]
    return WebDraft([*steps, answer(contact["phone"])], {"name": contact["name"]}, answer=contact["phone"])


@family(
    "mail.fact",
    2,
    "Find {what} in the message “{subject}” from {sender}.",
    "{sender} sent me “{subject}”. What is {what} in it?",
    "I need {what}: it is in the mail “{subject}” by {sender}.",
)
def fact(scene: WebScene) -> WebDraft:
    """Read a code in the text of a message."""
    what, subject, pattern = scene.choice(FACTS)
    message = pick_message(scene, "subject LIKE ?", subject)
    match = re.search(pattern, message["body"])
    scene.need(match)
    value = match[1] if match else ""
    words = {"what": what, "sender": message["sender_name"], "subject": message["subject"]}
    return WebDraft([*open_message(scene, message), answer(value)], words, answer=value)


@family(
    "mail.count_unread",
    2,
    "How many unread messages from {name} are in the inbox? Answer with a number.",
    "Count the messages in my inbox that {name} sent and that are still unread. Answer with a number.",
    "Of the messages from {name} in the inbox, how many have I not read yet? Answer with a number.",
)
def count_unread(scene: WebScene) -> WebDraft:
    """Count the messages from one sender."""
    contact, messages = inbox_from(scene, 2, 10)
    count = str(sum(message["unread"] for message in messages))
    return WebDraft([*search_inbox(contact["address"]), answer(count)], {"name": contact["name"]}, answer=count)


@family(
    "mail.star",
    1,
    "Add a star to the message “{subject}” from {sender}.",
    "Star the mail “{subject}” that {sender} sent.",
    "The message “{subject}” ({sender}) is important. Mark it with a star.",
)
def star(scene: WebScene) -> WebDraft:
    """Star one message."""
    message = pick_message(scene, "NOT starred")
    return WebDraft(
        [*open_message(scene, message), button("Add star")],
        {"subject": message["subject"], "sender": message["sender_name"]},
        [("UPDATE messages SET starred = 1 WHERE id = ?", [message["id"]])],
        checks=[exists("starred", "messages WHERE starred AND id = ?", message["id"])],
    )


@family(
    "mail.move",
    1,
    "Move the message “{subject}” from {sender} to the folder “{folder}”.",
    "Put the mail “{subject}”, which {sender} sent, into “{folder}”.",
    "File {sender}'s message “{subject}” under “{folder}”.",
)
def move(scene: WebScene) -> WebDraft:
    """Move one message."""
    message = pick_message(scene, "folder = ?", INBOX)
    folder = scene.pick("SELECT * FROM folders WHERE id IN (?, ?) OR id > ?", ARCHIVE, SPAM, BIN)
    return WebDraft(
        [*open_message(scene, message), select("Move to folder", folder["name"]), button("Move")],
        {"subject": message["subject"], "sender": message["sender_name"], "folder": folder["name"]},
        [("UPDATE messages SET folder = ? WHERE id = ?", [folder["id"], message["id"]])],
        checks=[exists("moved", "messages WHERE id = ? AND folder = ?", message["id"], folder["id"])],
    )


@family(
    "mail.label_all",
    3,
    "Add the label “{label}” to every message from {name} that is in the inbox.",
    "Everything in my inbox that {name} sent should have the label “{label}”. Leave other messages alone.",
    "Please put the label “{label}” on all messages from {name} in the inbox, and on no others.",
)
def label_all(scene: WebScene) -> WebDraft:
    """Label several messages."""
    contact, messages = inbox_from(scene, 2, 6)
    label = scene.pick("SELECT * FROM labels")
    numbers = [message["id"] for message in messages]
    labelled = "message_labels WHERE message = ? AND label = ?"
    missing = [n for n in numbers if not scene.value(f"SELECT count(*) FROM {labelled}", n, label["id"])]
    scene.need(missing)
    return WebDraft(
        [*search_inbox(contact["address"]), *with_chosen(messages, f"Add label {label['name']}")],
        {"label": label["name"], "name": contact["name"]},
        [("INSERT INTO message_labels VALUES (?, ?)", [number, label["id"]]) for number in missing],
        checks=[exists(f"message {number} labelled", labelled, number, label["id"]) for number in missing],
    )


@family(
    "mail.delete_largest",
    3,
    "Delete the message in the inbox whose attachments are largest in total.",
    "My mailbox is nearly full. Move the message in the inbox with the largest attachments (all of its files "
    "together) to the bin.",
    "Which message in the inbox has the largest attachments, taking all its files together? Please delete it.",
)
def delete_largest(scene: WebScene) -> WebDraft:
    """Sort by size and delete the first message."""
    sizes = scene.rows(
        "SELECT m.*, sum(a.kilobytes) AS size FROM messages m JOIN attachments a ON a.message = m.id "
        "WHERE m.folder = ? GROUP BY m.id ORDER BY size DESC LIMIT 2",
        INBOX,
    )
    scene.need(len(sizes) == 2 and sizes[0]["size"] > sizes[1]["size"])
    steps = [select("Show", "With attachments"), select("Sort by", "Largest attachments first"), button("Show")]
    return WebDraft(
        [*steps, *with_chosen(sizes[:1], "Delete")],
        {},
        [("UPDATE messages SET folder = ? WHERE id = ?", [BIN, sizes[0]["id"]])],
        checks=[exists("deleted", "messages WHERE id = ? AND folder = ?", sizes[0]["id"], BIN)],
    )


@family(
    "mail.keep_newest",
    4,
    "I only want the newest newsletter of each company. Delete the older ones of {company} from the inbox, and keep "
    "the newest.",
    "Clean the inbox up: of all the newsletters from {company} in it, only the newest may stay. The others go to the "
    "bin.",
    "{company} keeps sending newsletters. Leave only the newest of them in the inbox, and delete the older ones.",
)
def keep_newest(scene: WebScene) -> WebDraft:
    """Delete all messages but one."""
    company = scene.pick(
        "SELECT sender_name, sender FROM messages WHERE folder = ? AND subject LIKE '%newsletter%' "
        "GROUP BY sender HAVING count(*) BETWEEN 2 AND 6",
        INBOX,
    )
    sql = "SELECT * FROM messages WHERE folder = ? AND sender = ? ORDER BY sent_at DESC"
    older = scene.rows(sql, INBOX, company["sender"])[1:]
    numbers = [message["id"] for message in older]
    return WebDraft(
        [*search_inbox(company["sender"]), *with_chosen(older, "Delete")],
        {"company": company["sender_name"]},
        [("UPDATE messages SET folder = ? WHERE id = ?", [BIN, number]) for number in numbers],
        checks=[
            exists(f"message {number} deleted", "messages WHERE id = ? AND folder = ?", number, BIN)
            for number in numbers
        ],
    )


@family(
    "mail.tidy",
    4,
    "Create a folder called “{folder}” and move everything there that {name} sent and that is in the inbox now.",
    "All of {name}'s messages in the inbox belong in a folder of their own. Call it “{folder}”.",
    "Please make a new folder “{folder}” and put all messages from {name} that are in the inbox into it.",
)
def tidy(scene: WebScene) -> WebDraft:
    """Create a folder and move several messages there."""
    contact, messages = inbox_from(scene, 2, 6)
    name = scene.choice(("Projects 2", "Later", "Clients & friends", "On hold", "Café Row", "To be filed"))
    number = scene.value("SELECT max(id) + 1 FROM folders")
    steps = [link("Folders and labels"), fill("New folder", name), button("Create folder")]
    return WebDraft(
        [*steps, *search_inbox(contact["address"]), *with_chosen(messages, f"Move to {name}")],
        {"folder": name, "name": contact["name"]},
        [("INSERT INTO folders (name) VALUES (?)", [name])]
        + [("UPDATE messages SET folder = ? WHERE id = ?", [number, message["id"]]) for message in messages],
        checks=[exists("folder created", "folders WHERE name = ?", name)]
        + [
            check(f"message {m['id']} moved", "SELECT folder = ? FROM messages WHERE id = ?", number, m["id"])
            for m in messages
        ],
    )


@family(
    "mail.rescue",
    3,
    "A message about “{subject}” from {sender} is in the bin by mistake. Move it back to the inbox and mark it as "
    "unread, so that I see it.",
    "I deleted “{subject}” from {sender} too early. Put it back into the inbox, as an unread message.",
    "The message “{subject}” from {sender} should not be in the bin. Please move it to the inbox again and "
    "mark it as unread.",
)
def rescue(scene: WebScene) -> WebDraft:
    """Make two changes to one message."""
    message = pick_message(scene, "folder = ? AND NOT unread", BIN)
    steps = [select("Move to folder", "Inbox"), button("Move"), button("Mark as unread")]
    return WebDraft(
        [*open_message(scene, message), *steps],
        {"subject": message["subject"], "sender": message["sender_name"]},
        [("UPDATE messages SET folder = ?, unread = 1 WHERE id = ?", [INBOX, message["id"]])],
        checks=[
            exists("in the inbox", "messages WHERE id = ? AND folder = ?", message["id"], INBOX),
            exists("unread", "messages WHERE id = ? AND unread", message["id"]),
        ],
    )


@family(
    "mail.received_on",
    2,
    "Who sent me the message “{subject}” on {date}? Answer with the name.",
    "On {date} I got a message “{subject}”. Whose was it? Answer with the name of the sender.",
    "A message called “{subject}” reached me on {date}. Who is it from? Answer with the name.",
)
def received_on(scene: WebScene) -> WebDraft:
    """Find a message by its date among others with the same subject."""
    subject = scene.pick(
        "SELECT subject FROM messages WHERE replies_to IS NULL AND folder NOT IN (2, 3, 5) GROUP BY subject "
        "HAVING count(DISTINCT sender) > 1"
    )["subject"]
    message = scene.pick("SELECT * FROM messages WHERE subject = ? AND folder NOT IN (2, 3)", subject)
    date = message["sent_at"][:10]
    scene.only("SELECT 1 FROM messages WHERE subject = ? AND sent_at LIKE ?", subject, f"{date}%")
    steps = [
        button("Search"),
        fill("Subject", subject),
        fill("Since", date),
        fill("Until", date),
        button("Find messages"),
    ]
    name = message["sender_name"]
    return WebDraft([*steps, answer(name)], {"subject": subject, "date": day(date)}, answer=name)
