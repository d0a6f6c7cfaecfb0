"""The mail site: folders, search, messages with their threads, and actions on messages.

Looking at a message does not mark it as read; only forms change the mailbox.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from agentgym.tasks.web.sites.forms import SiteForm
from agentgym.tasks.web.sites.mail.compose import ROUTES as COMPOSE_ROUTES
from agentgym.tasks.web.sites.mail.fill import ARCHIVE, BIN, DRAFTS, INBOX, SENT, SPAM, fill_mail
from agentgym.tasks.web.sites.mail.settings import ROUTES as SETTINGS_ROUTES
from agentgym.tasks.web.sites.office import fold, same_site
from agentgym.tasks.web.sites.site import Routes, Site, SiteReply
from agentgym.tasks.web.sites.visit import PageProblem, Visit

ROUTES = Routes()


@ROUTES.get("/contacts")
def show_contacts(visit: Visit) -> SiteReply:
    """Show the address book, or the contacts that match a search."""
    term = fold(visit.query.get("q", ""))
    rows = visit.rows("SELECT * FROM contacts")
    rows = [row for row in rows if any(term in fold(row[key]) for key in ("name", "address", "company", "note"))]
    return visit.page("mail/contacts.html", pager=visit.pager(sorted(rows, key=lambda row: fold(row["name"]))))


@ROUTES.get("/contacts/new")
def new_contact(visit: Visit) -> SiteReply:
    """Show an empty form for a contact."""
    values = {"name": visit.query.get("name", ""), "address": visit.query.get("address", "")}
    return visit.page("mail/contact.html", contact=None, form=SiteForm.filled(values))


@ROUTES.post("/contacts/new")
def add_contact(visit: Visit) -> SiteReply:
    """Add a contact."""
    values = _read(visit, 0)
    if not visit.form.ok:
        return visit.page("mail/contact.html", 422, contact=None)
    visit.run("INSERT INTO contacts (name, address, phone, company, note) VALUES (?, ?, ?, ?, ?)", *values)
    return visit.redirect("/contacts", f"{values[0]} is in the address book.")


@ROUTES.get("/contacts/{number:int}")
def show_contact(visit: Visit, number: int) -> SiteReply:
    """Show one contact, to read or to change."""
    contact = visit.find("contact", "SELECT * FROM contacts WHERE id = ?", number)
    return visit.page("mail/contact.html", contact=contact, form=SiteForm.filled(dict(contact)))


@ROUTES.post("/contacts/{number:int}")
def change_contact(visit: Visit, number: int) -> SiteReply:
    """Change a contact."""
    contact = visit.find("contact", "SELECT * FROM contacts WHERE id = ?", number)
    values = _read(visit, number)
    if not visit.form.ok:
        return visit.page("mail/contact.html", 422, contact=contact)
    visit.run(
        "UPDATE contacts SET name = ?, address = ?, phone = ?, company = ?, note = ? WHERE id = ?", *values, number
    )
    return visit.redirect("/contacts", f"{values[0]} was saved.")


@ROUTES.post("/contacts/{number:int}/delete")
def delete_contact(visit: Visit, number: int) -> SiteReply:
    """Remove a contact."""
    contact = visit.find("contact", "SELECT * FROM contacts WHERE id = ?", number)
    visit.run("DELETE FROM contacts WHERE id = ?", number)
    return visit.redirect("/contacts", f"{contact['name']} was removed.")


def _read(visit: Visit, number: int) -> tuple[str, ...]:
    form = visit.form
    name, address = form.text("name"), form.email("address")
    if visit.row("SELECT 1 FROM contacts WHERE address = ? AND id <> ?", address, number):
        form.error("address", "Another contact has this address already.")
    rest = (form.text("phone", required=False, most=40), form.text("company", required=False))
    return name, address, *rest, form.text("note", required=False, most=1000)


CONTACT_ROUTES = ROUTES

SHOWN = {"all": "All messages", "unread": "Unread", "starred": "Starred", "files": "With attachments"}
SORTS = {
    "newest": "Newest first",
    "oldest": "Oldest first",
    "sender": "Sender",
    "subject": "Subject",
    "largest": "Largest attachments first",
}
_LIST = """
SELECT m.*, f.name AS folder_name,
    (SELECT count(*) FROM attachments a WHERE a.message = m.id) AS files,
    (SELECT coalesce(sum(kilobytes), 0) FROM attachments a WHERE a.message = m.id) AS kilobytes,
    (SELECT group_concat(name, ', ') FROM (SELECT l.name FROM message_labels ml JOIN labels l ON l.id = ml.label
     WHERE ml.message = m.id ORDER BY l.name)) AS labels
FROM messages m JOIN folders f ON f.id = m.folder
"""
_FLAGS = {
    "read": ("unread", 0, "Marked as read"),
    "unread": ("unread", 1, "Marked as unread"),
    "star": ("starred", 1, "Starred"),
    "unstar": ("starred", 0, "Star removed"),
}


@ROUTES.get("/")
def start(visit: Visit) -> SiteReply:
    """Show the inbox, the mailbox's first page."""
    return visit.redirect(f"/folder/{INBOX}")


@ROUTES.get("/folder/{folder:int}")
def show_folder(visit: Visit, folder: int) -> SiteReply:
    """List the messages of one folder."""
    row = visit.find("folder", "SELECT * FROM folders WHERE id = ?", folder)
    filter_name = visit.query.get("show", "all")
    test = {"unread": " AND unread", "starred": " AND starred", "files": " AND files > 0"}.get(filter_name, "")
    rows = visit.rows(f"SELECT * FROM ({_LIST}) WHERE folder = ?{test}", folder)
    pager = visit.pager(_sorted(visit, rows))
    return visit.page("mail/folder.html", folder=row, pager=pager, shown=SHOWN, actions=_actions(visit, folder))


@ROUTES.get("/search")
def search(visit: Visit) -> SiteReply:
    """List the messages that match all given terms."""
    rows = _sorted(visit, [row for row in visit.rows(_LIST) if _fits(visit, row)]) if _terms(visit) else []
    return visit.page(
        "mail/search.html", pager=visit.pager(rows), asked=bool(_terms(visit)), actions=_actions(visit, None)
    )


@ROUTES.get("/message/{number:int}")
def show_message(visit: Visit, number: int) -> SiteReply:
    """Show one message with its attachments, and the other messages of its thread."""
    message = visit.find("message", f"{_LIST} WHERE m.id = ?", number)
    return visit.page(
        "mail/message.html",
        message=message,
        attachments=visit.rows("SELECT * FROM attachments WHERE message = ? ORDER BY id", number),
        labels=visit.rows(
            "SELECT l.* FROM labels l JOIN message_labels ml ON ml.label = l.id WHERE ml.message = ? ORDER BY l.name",
            number,
        ),
        thread=visit.rows(f"{_LIST} WHERE m.thread = ? ORDER BY m.sent_at", message["thread"]),
        contact=visit.row("SELECT * FROM contacts WHERE address = ?", message["sender"]),
        targets=_targets(visit, message["folder"]),
    )


@ROUTES.post("/messages")
def act(visit: Visit) -> SiteReply:
    """Apply an action to the chosen messages."""
    back = same_site(visit.form.values.get("back", ""), f"/folder/{INBOX}")
    valid_ids = [str(row["id"]) for row in visit.rows("SELECT id FROM messages ORDER BY id")]
    ids = [int(number) for number in visit.form.choices("message", valid_ids)]
    if not visit.form.ok:
        raise PageProblem(404, "There is no such message.")
    if not ids:
        return visit.redirect(back, "No message was chosen.")
    action, _, target = visit.form.values.get("action", "").partition(":")
    if not action:
        return visit.redirect(back, "Please choose what to do with the messages.")
    done = _apply(visit, ids, action, target)
    gone = not visit.value("SELECT count(*) FROM messages WHERE id = ?", ids[0])
    if gone and back.startswith("/message/"):
        back = f"/folder/{BIN}"
    return visit.redirect(back, f"{done}: {len(ids)} message{'s' if len(ids) > 1 else ''}.")


@ROUTES.post("/folder/{folder:int}/empty")
def empty(visit: Visit, folder: int) -> SiteReply:
    """Permanently delete everything in the bin or in the spam folder."""
    if folder not in (BIN, SPAM):
        raise PageProblem(400, "Only the bin and the spam folder can be emptied.")
    visit.run("DELETE FROM messages WHERE folder = ?", folder)
    return visit.redirect(f"/folder/{folder}", "The folder is empty now.")


def _apply(visit: Visit, ids: Sequence[int], action: str, target: str) -> str:
    marks = ", ".join("?" * len(ids))
    if action in _FLAGS:
        column, value, done = _FLAGS[action]
        visit.run(f"UPDATE messages SET {column} = ? WHERE id IN ({marks})", value, *ids)
        return done
    if action == "delete":
        visit.run(f"DELETE FROM messages WHERE folder = ? AND id IN ({marks})", BIN, *ids)
        visit.run(f"UPDATE messages SET folder = ? WHERE id IN ({marks})", BIN, *ids)
        return "Deleted"
    number = int(target) if target.isascii() and target.isdecimal() and len(target) < 10 else 0
    if action == "move" and number not in (DRAFTS, SENT):
        folder = visit.find("folder", "SELECT * FROM folders WHERE id = ?", number)
        visit.run(f"UPDATE messages SET folder = ? WHERE id IN ({marks})", number, *ids)
        return f"Moved to {folder['name']}"
    if action in ("label", "unlabel"):
        label = visit.find("label", "SELECT * FROM labels WHERE id = ?", number)
        for message in ids:
            visit.run("DELETE FROM message_labels WHERE message = ? AND label = ?", message, number)
            if action == "label":
                visit.run("INSERT INTO message_labels VALUES (?, ?)", message, number)
        return f"{'Added' if action == 'label' else 'Removed'} label {label['name']}"
    raise PageProblem(400, "There is no such action.")


def _terms(visit: Visit) -> dict[str, str]:
    names = ("q", "sender", "to", "subject", "folder", "label", "since", "until", "files")
    return {name: visit.query[name] for name in names if visit.query.get(name)}


def _fits(visit: Visit, row: sqlite3.Row) -> bool:
    terms = _terms(visit)
    texts = {
        "q": f"{row['subject']}\n{row['body']}\n{row['sender_name']} {row['sender']}",
        "sender": f"{row['sender_name']} {row['sender']}",
        "to": f"{row['recipients']}, {row['cc']}",
        "subject": row["subject"],
    }
    day = row["sent_at"][:10]
    return (
        all(fold(terms[name]) in fold(text) for name, text in texts.items() if name in terms)
        and terms.get("folder", str(row["folder"])) == str(row["folder"])
        and ("label" not in terms or terms["label"] in (row["labels"] or "").split(", "))
        and terms.get("since", day) <= day <= terms.get("until", day)
        and ("files" not in terms or row["files"] > 0)
    )


def _sorted(visit: Visit, rows: Sequence[sqlite3.Row]) -> list[sqlite3.Row]:
    newest = sorted(rows, key=lambda row: (row["sent_at"], row["id"]), reverse=True)
    match visit.query.get("sort"):
        case "oldest":
            return newest[::-1]
        case "sender" | "subject" as key:
            column = "sender_name" if key == "sender" else "subject"
            return sorted(newest, key=lambda row: fold(row[column]))
        case "largest":
            return sorted(newest, key=lambda row: -row["kilobytes"])
        case _:
            return newest


def _targets(visit: Visit, folder: int | None) -> dict[str, list[tuple[str, str]]]:
    folders = visit.rows("SELECT * FROM folders WHERE id NOT IN (?, ?) ORDER BY id", DRAFTS, SENT)
    labels = visit.rows("SELECT * FROM labels ORDER BY id")
    return {
        "move": [(f"move:{row['id']}", row["name"]) for row in folders if row["id"] != folder],
        "label": [(f"label:{row['id']}", row["name"]) for row in labels],
    }


def _actions(visit: Visit, folder: int | None) -> list[tuple[str, str]]:
    targets = _targets(visit, folder)
    return [
        ("delete", "Delete for good" if folder == BIN else "Delete"),
        ("read", "Mark as read"),
        ("unread", "Mark as unread"),
        ("star", "Add star"),
        ("unstar", "Remove star"),
        *((value, f"Move to {name}") for value, name in targets["move"]),
        *((value, f"Add label {name}") for value, name in targets["label"]),
    ]


def _context(visit: Visit) -> dict[str, Any]:
    return {
        "account": visit.row("SELECT * FROM account"),
        "folders": visit.rows(
            "SELECT f.*, (SELECT count(*) FROM messages m WHERE m.folder = f.id AND m.unread) AS unread "
            "FROM folders f ORDER BY f.id"
        ),
        "all_labels": visit.rows("SELECT * FROM labels ORDER BY name"),
        "sorts": SORTS,
        "INBOX": INBOX,
        "DRAFTS": DRAFTS,
        "SENT": SENT,
        "ARCHIVE": ARCHIVE,
        "SPAM": SPAM,
        "BIN": BIN,
    }


SITE = Site(
    name="mail",
    title="Mail",
    fill=fill_mail,
    routes=Routes([*ROUTES, *COMPOSE_ROUTES, *CONTACT_ROUTES, *SETTINGS_ROUTES]),
    context=_context,
)
