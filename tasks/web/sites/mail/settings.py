"""Settings of the mail site: user-made folders and labels, filters for new mail, and the vacation responder."""

from __future__ import annotations

from agentgym.tasks.web.sites.forms import SiteForm
from agentgym.tasks.web.sites.mail.fill import ARCHIVE, BIN, DRAFTS, INBOX, SENT
from agentgym.tasks.web.sites.office import fold
from agentgym.tasks.web.sites.site import Routes, SiteReply
from agentgym.tasks.web.sites.visit import PageProblem, Visit

ROUTES = Routes()
PARTS = {"sender": "Sender", "subject": "Subject", "body": "Text"}
ACTIONS = {"move": "Move to the folder", "label": "Add the label", "star": "Add a star"}
_TABLES = {"folder": "folders", "label": "labels"}


@ROUTES.get("/organise")
def organise(visit: Visit) -> SiteReply:
    """Show user-made folders and labels."""
    return _organise_page(visit)


@ROUTES.post("/organise/{kind}/new")
def create(visit: Visit, kind: str) -> SiteReply:
    """Create a folder or a label."""
    table = _table(kind)
    name = _name(visit, kind, f"new-{kind}", 0)
    if not visit.form.ok:
        return _organise_page(visit, 422)
    visit.run(f"INSERT INTO {table} (name) VALUES (?)", name)
    return visit.redirect("/organise", f"The {kind} {name} was created.")


@ROUTES.post("/organise/{kind}/{number:int}/rename")
def rename(visit: Visit, kind: str, number: int) -> SiteReply:
    """Rename a folder or a label."""
    table = _own(visit, kind, number)
    name = _name(visit, kind, f"{kind}-{number}", number)
    if not visit.form.ok:
        return _organise_page(visit, 422)
    visit.run(f"UPDATE {table} SET name = ? WHERE id = ?", name, number)
    return visit.redirect("/organise", f"The {kind} is called {name} now.")


@ROUTES.post("/organise/{kind}/{number:int}/delete")
def delete(visit: Visit, kind: str, number: int) -> SiteReply:
    """Delete a folder or a label; messages of a deleted folder move to the archive."""
    table = _own(visit, kind, number)
    if kind == "folder":
        visit.run("UPDATE messages SET folder = ? WHERE folder = ?", ARCHIVE, number)
    visit.run(f"DELETE FROM {table} WHERE id = ?", number)
    return visit.redirect("/organise", f"The {kind} was deleted.")


@ROUTES.get("/filters")
def show_filters(visit: Visit) -> SiteReply:
    """List all filters, with a form for another one."""
    return _filters_page(visit, SiteForm())


@ROUTES.post("/filters")
def add_filter(visit: Visit) -> SiteReply:
    """Add a filter, and apply it to the inbox if asked to."""
    form = visit.form
    part, text, action = form.choice("part", PARTS), form.text("text"), form.choice("action", ACTIONS)
    folders = [str(row["id"]) for row in _folders(visit)]
    labels = [str(row["id"]) for row in visit.rows("SELECT id FROM labels")]
    folder = int(form.choice("folder", folders) or 0) if action == "move" else None
    label = int(form.choice("label", labels) or 0) if action == "label" else None
    if not form.ok:
        return _filters_page(visit, form, 422)
    visit.run(
        "INSERT INTO rules (part, text, action, folder, label) VALUES (?, ?, ?, ?, ?)",
        part,
        text,
        action,
        folder,
        label,
    )
    touched = _use(visit, part, text, folder, label) if form.flag("now") else 0
    return visit.redirect("/filters", f"The filter was added and used on {touched} messages of the inbox.")


@ROUTES.post("/filters/{number:int}/delete")
def delete_filter(visit: Visit, number: int) -> SiteReply:
    """Remove a filter."""
    visit.find("filter", "SELECT * FROM rules WHERE id = ?", number)
    visit.run("DELETE FROM rules WHERE id = ?", number)
    return visit.redirect("/filters", "The filter was deleted.")


@ROUTES.get("/vacation")
def show_vacation(visit: Visit) -> SiteReply:
    """Show the vacation responder."""
    row = visit.find("responder", "SELECT * FROM vacation")
    values = {key: row[key] for key in ("first_day", "last_day", "subject", "body")}
    values["enabled"] = "on" if row["enabled"] else "off"
    return visit.page("mail/vacation.html", form=SiteForm.filled(values), contacts_only=row["contacts_only"])


@ROUTES.post("/vacation")
def change_vacation(visit: Visit) -> SiteReply:
    """Change the vacation responder."""
    form = visit.form
    enabled = form.choice("enabled", ("on", "off")) == "on"
    first, last = form.date("first_day", required=enabled), form.date("last_day", required=enabled)
    if form.ok and first and last and last < first:
        form.error("last_day", "The last day must not be before the first day.")
    subject, body = form.text("subject", required=enabled), form.text("body", required=enabled, most=5000)
    only = form.flag("contacts_only")
    if not form.ok:
        return visit.page("mail/vacation.html", 422, contacts_only=only)
    visit.run(
        "UPDATE vacation SET enabled = ?, first_day = ?, last_day = ?, subject = ?, body = ?, contacts_only = ?",
        *(int(enabled), first, last, subject, body, int(only)),
    )
    return visit.redirect("/vacation", f"The responder is {'on' if enabled else 'off'}.")


def matches(part: str, text: str, sender_name: str, sender: str, subject: str, body: str) -> bool:
    """Return whether a filter matches a message."""
    whole = {"sender": f"{sender_name} {sender}", "subject": subject, "body": body}[part]
    return fold(text) in fold(whole)


def _use(visit: Visit, part: str, text: str, folder: int | None, label: int | None) -> int:
    keys = ("sender_name", "sender", "subject", "body")
    inbox = visit.rows("SELECT * FROM messages WHERE folder = ? ORDER BY id", INBOX)
    message_ids = [row["id"] for row in inbox if matches(part, text, *(row[key] for key in keys))]
    for number in message_ids:
        if folder is not None:
            visit.run("UPDATE messages SET folder = ? WHERE id = ?", folder, number)
        elif label is not None:
            visit.run("INSERT OR IGNORE INTO message_labels VALUES (?, ?)", number, label)
        else:
            visit.run("UPDATE messages SET starred = 1 WHERE id = ?", number)
    return len(message_ids)


def _table(kind: str) -> str:
    if kind not in _TABLES:
        raise PageProblem(404, "There is no page at this address.")
    return _TABLES[kind]


def _own(visit: Visit, kind: str, number: int) -> str:
    table = _table(kind)
    visit.find(kind, f"SELECT * FROM {table} WHERE id = ?", number)
    if kind == "folder" and number <= BIN:
        raise PageProblem(400, "This folder cannot be changed.")
    return table


def _name(visit: Visit, kind: str, name: str, number: int) -> str:
    value = visit.form.text(name, most=40)
    if "," in value:
        visit.form.error(name, "Please use no comma.")
    if visit.row(f"SELECT 1 FROM {_table(kind)} WHERE name = ? AND id <> ?", value, number):
        visit.form.error(name, f"There is a {kind} of this name already.")
    return value


def _folders(visit: Visit) -> list:
    return visit.rows("SELECT * FROM folders WHERE id NOT IN (?, ?, ?) ORDER BY id", INBOX, DRAFTS, SENT)


def _organise_page(visit: Visit, status: int = 200) -> SiteReply:
    count = "(SELECT count(*) FROM messages WHERE folder = folders.id)"
    folders = visit.rows(f"SELECT *, {count} AS messages FROM folders WHERE id > ? ORDER BY id", BIN)
    return visit.page("mail/organise.html", status, own=folders, labels=visit.rows("SELECT * FROM labels ORDER BY id"))


def _filters_page(visit: Visit, form: SiteForm, status: int = 200) -> SiteReply:
    rules = visit.rows(
        "SELECT r.*, f.name AS folder_name, l.name AS label_name FROM rules r "
        "LEFT JOIN folders f ON f.id = r.folder LEFT JOIN labels l ON l.id = r.label ORDER BY r.id"
    )
    return visit.page(
        "mail/filters.html", status, rules=rules, parts=PARTS, rule_actions=ACTIONS, targets=_folders(visit), form=form
    )
