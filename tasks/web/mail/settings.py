"""Families of the mail site: address book, filters, labels and the vacation responder."""

from __future__ import annotations

from datetime import date, timedelta

from agentgym.tasks.web.checks import check, exists
from agentgym.tasks.web.family import WebDraft, WebScene, family
from agentgym.tasks.web.mail.steps import TEXTS, open_message, pick_message
from agentgym.tasks.web.plan import button, choose, fill, link, select, tick
from agentgym.tasks.web.sites.mail.fill import BIN, INBOX
from agentgym.tasks.web.sites.mail.settings import ACTIONS, PARTS, matches
from agentgym.tasks.web.sites.pages import day

_PLACES = ("Northfield & Co", "O'Hara Print", 'Studio "Blau"', "Müller GmbH", "Lakeside School", "Café Central")


@family(
    "mail.vacation",
    2,
    "Turn the vacation responder on from {first} to {last}, with the subject “{subject}” and the text “{text}”. {who}",
    "I am away from {first} until {last} (inclusive). Set up the vacation responder: subject “{subject}”, text "
    "“{text}”. {who}",
    "Please switch the vacation responder on for {first} to {last}, both days included. The subject is "
    "“{subject}”, the text is “{text}”. {who}",
)
def vacation(scene: WebScene) -> WebDraft:
    """Fill in one form."""
    first = date.fromisoformat(scene.today) + timedelta(days=scene.rng.randrange(1, 30))
    last = first + timedelta(days=scene.rng.randrange(3, 21))
    subject, text = scene.choice(("On leave", "Away from my desk", "Back soon")), scene.choice(TEXTS)
    only = scene.rng.random() < 0.5
    values = [("First day", str(first)), ("Last day", str(last)), ("Subject", subject), ("Text", text)]
    steps = [link("Vacation responder"), choose("On"), *(fill(*pair) for pair in values)]
    steps += [tick("Answer only people in my contacts")] if only else []
    who = "It should only answer people in my contacts." if only else "It should answer everybody."
    change = "UPDATE vacation SET enabled = 1, first_day = ?, last_day = ?, subject = ?, body = ?, contacts_only = ?"
    return WebDraft(
        [*steps, button("Save responder")],
        {"first": day(first), "last": day(last), "subject": subject, "text": text, "who": who},
        [(change, [str(first), str(last), subject, text, int(only)])],
        checks=[
            check("on", "SELECT enabled FROM vacation"),
            check("right days", "SELECT first_day = ? AND last_day = ? FROM vacation", str(first), str(last)),
        ],
    )


@family(
    "mail.add_contact",
    2,
    "Add {name} to the address book: {address}, phone {phone}, company “{company}”.",
    "New contact: {name}, {address}. The phone number is {phone}, the company is “{company}”. Please save it.",
    "Please save a new entry in my address book: {name} of “{company}”, e-mail {address}, phone {phone}.",
)
def add_contact(scene: WebScene) -> WebDraft:
    """Add a contact with given data."""
    name, address = scene.choice(
        (
            ("Tilda Okonjo", "tilda.okonjo@lakeside.test"),
            ("Benoît L'Écuyer", "benoit@lecuyer.test"),
            ("Ngozi Abiola", "n.abiola@post.test"),
            ("Rita van Dijk", "rita@vandijk.test"),
        )
    )
    phone, company = f"+44 20 7946 0{scene.rng.randrange(100, 1000)}", scene.choice(_PLACES)
    values = [("Name", name), ("E-mail address", address), ("Phone", phone), ("Company", company)]
    steps = [link("Contacts"), link("New contact"), *(fill(*pair) for pair in values), button("Save contact")]
    insert = "INSERT INTO contacts (name, address, phone, company) VALUES (?, ?, ?, ?)"
    return WebDraft(
        steps,
        {"name": name, "address": address, "phone": phone, "company": company},
        [(insert, [name, address, phone, company])],
        checks=[exists("added", "contacts WHERE address = ?", address)],
    )


@family(
    "mail.contact_from_mail",
    3,
    "{sender}, who wrote “{subject}”, is not in my contacts yet. Add them, with the phone number from the end of that "
    "message. Leave company and note empty.",
    "Add the sender of “{subject}” ({sender}) to the address book: name, address, and the phone number below the "
    "message. No company, no note.",
    "I'd like to have {sender} in my contacts, with the address that “{subject}” came from and the phone "
    "number at the end of it. Leave the company and the note empty.",
)
def contact_from_mail(scene: WebScene) -> WebDraft:
    """Take a contact's data from a message."""
    message = pick_message(
        scene, "sender NOT IN (SELECT address FROM contacts) AND body LIKE '%Phone +44%' AND folder = ?", INBOX
    )
    phone = message["body"].rpartition("Phone ")[2]
    steps = [link("Add to contacts"), fill("Phone", phone), button("Save contact")]
    insert = "INSERT INTO contacts (name, address, phone) VALUES (?, ?, ?)"
    return WebDraft(
        [*open_message(scene, message), *steps],
        {"sender": message["sender_name"], "subject": message["subject"]},
        [(insert, [message["sender_name"], message["sender"], phone])],
        checks=[
            exists("added", "contacts WHERE address = ?", message["sender"]),
            exists("with the number", "contacts WHERE address = ? AND phone = ?", message["sender"], phone),
        ],
    )


@family(
    "mail.filter",
    3,
    "Create a filter: when the {part} contains “{text}”, {action}. {now}",
    "Set up a filter for mail whose {part} contains “{text}”: {action}. {now}",
    "I'd like a new mail filter: if the {part} contains “{text}”, then {action}. {now}",
)
def add_filter(scene: WebScene) -> WebDraft:
    """Create a filter, and apply it to existing messages if asked to."""
    part, text = scene.choice((("subject", "newsletter"), ("subject", "Invoice 20"), ("sender", "@post.test")))
    action = scene.choice(tuple(ACTIONS))
    folder = scene.pick("SELECT * FROM folders WHERE id > ?", BIN) if action == "move" else None
    label = scene.pick("SELECT * FROM labels") if action == "label" else None
    at_once = scene.rng.random() < 0.6
    steps = [
        link("Filters"),
        select("Look at", PARTS[part]),
        fill("Contains", text),
        select("What to do", ACTIONS[action]),
    ]
    steps += [select("Folder", folder["name"])] if folder else []
    steps += [select("Label", label["name"])] if label else []
    steps += [tick("Also use it on the messages in the inbox")] if at_once else []
    insert = "INSERT INTO rules (part, text, action, folder, label) VALUES (?, ?, ?, ?, ?)"
    target = (folder["id"] if folder else None, label["id"] if label else None)
    keys = ("sender_name", "sender", "subject", "body")
    inbox = scene.rows("SELECT * FROM messages WHERE folder = ?", INBOX)
    message_ids = [row["id"] for row in inbox if at_once and matches(part, text, *(row[key] for key in keys))]
    doing = {
        "move": f"move it to the folder “{folder['name']}”" if folder else "",
        "label": f"add the label “{label['name']}”" if label else "",
        "star": "add a star",
    }
    now = "Use it on the messages in the inbox right away, too." if at_once else "Do not use it on old messages."
    return WebDraft(
        [*steps, button("Add filter")],
        {"part": part, "text": text, "action": doing[action], "now": now},
        [(insert, [part, text, action, *target]), *(_used(action, number, target) for number in message_ids)],
        checks=[exists("created", "rules WHERE part = ? AND text = ? AND action = ?", part, text, action)],
    )


@family(
    "mail.rename_label",
    2,
    "Rename the label “{old}” to “{new}”.",
    "The label “{old}” should be called “{new}” from now on.",
    "Please change the name of the label “{old}”: it should be “{new}”.",
)
def rename_label(scene: WebScene) -> WebDraft:
    """Rename a label."""
    label = scene.pick("SELECT * FROM labels")
    new = scene.choice(("this week", "R&D", "müssen", "ask first", "done?"))
    return WebDraft(
        [
            link("Folders and labels"),
            fill(f"Name of label {label['name']}", new),
            button(f"Rename {label['name']}"),
        ],
        {"old": label["name"], "new": new},
        [("UPDATE labels SET name = ? WHERE id = ?", [new, label["id"]])],
        checks=[exists("renamed", "labels WHERE name = ?", new)],
    )


def _used(action: str, number: int, target: tuple[int | None, int | None]) -> tuple[str, list[int | None]]:
    if action == "move":
        return "UPDATE messages SET folder = ? WHERE id = ?", [target[0], number]
    if action == "label":
        return "INSERT OR IGNORE INTO message_labels VALUES (?, ?)", [number, target[1]]
    return "UPDATE messages SET starred = 1 WHERE id = ?", [number]
