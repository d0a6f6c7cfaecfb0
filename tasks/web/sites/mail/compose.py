"""Writing on the mail site: new messages, replies, forwarded messages and drafts.

A reply does not quote the message it answers: its text is exactly what was written.
"""

from __future__ import annotations

import re
import sqlite3

from agentgym.tasks.web.sites.forms import SiteForm
from agentgym.tasks.web.sites.mail.fill import DRAFTS, SENT, join_addresses
from agentgym.tasks.web.sites.site import Routes, SiteReply
from agentgym.tasks.web.sites.visit import PageProblem, Visit

ROUTES = Routes()
KINDS = {"new": "New message", "reply": "Reply", "all": "Reply to all", "forward": "Forward", "draft": "Draft"}
_ADDRESS = re.compile(r"[^@\s,;<>\"]+@[^@\s,;<>\"]+\.[^@\s,;<>\".]+")
_NAMED = re.compile(r"\s*(?:[^<>@]*<([^<>]*)>|([^<>]*))\s*")


@ROUTES.get("/compose")
def compose(visit: Visit) -> SiteReply:
    """Show a form for a message: empty, or a reply to the message given in the query."""
    kind = visit.query.get("kind", "new")
    if kind not in KINDS:
        raise PageProblem(400, "There is no such kind of message.")
    source = None if kind == "new" else _source(visit, visit.query.get("message", ""))
    return _page(visit, kind, source, SiteForm.filled(_start(visit, kind, source)))


@ROUTES.post("/compose")
def submit(visit: Visit) -> SiteReply:
    """Send a message, or keep it as a draft."""
    form = visit.form
    kind = form.choice("kind", KINDS)
    if kind not in KINDS:
        raise PageProblem(400, "There is no such kind of message.")
    source = None if kind == "new" else _source(visit, form.values.get("source", ""))
    send = form.values.get("action") != "save"
    to, cc = _addresses(form, "to", required=send), _addresses(form, "cc", required=False)
    subject = form.text("subject", required=send)
    body = form.text("body", required=send and kind != "forward", most=10_000)
    if not form.ok:
        return _page(visit, kind, source, form, status=422)
    _store(visit, kind, source, (to, cc, subject, body, SENT if send else DRAFTS))
    if send:
        return visit.redirect(f"/folder/{SENT}", f"Sent to {to}.")
    return visit.redirect(f"/folder/{DRAFTS}", "Saved as a draft.")


@ROUTES.post("/draft/{number:int}/discard")
def discard(visit: Visit, number: int) -> SiteReply:
    """Discard a draft."""
    visit.find("draft", "SELECT * FROM messages WHERE id = ? AND folder = ?", number, DRAFTS)
    visit.run("DELETE FROM messages WHERE id = ?", number)
    return visit.redirect(f"/folder/{DRAFTS}", "The draft is gone.")


def _source(visit: Visit, number: str) -> sqlite3.Row:
    is_id = number.isascii() and number.isdecimal() and len(number) < 10
    return visit.find("message", "SELECT * FROM messages WHERE id = ?", int(number) if is_id else 0)


def _start(visit: Visit, kind: str, source: sqlite3.Row | None) -> dict[str, str]:
    if source is None:
        return {"to": visit.query.get("to", ""), "cc": "", "subject": "", "body": ""}
    if kind == "draft":
        return {"to": source["recipients"], "cc": source["cc"], "subject": source["subject"], "body": source["body"]}
    if kind == "forward":
        return {"to": "", "cc": "", "subject": prefixed("Fwd", source["subject"]), "body": ""}
    mine = visit.value("SELECT address FROM account")
    to, cc = receivers(source["sender"], source["recipients"], source["cc"], mine, everybody=kind == "all")
    return {"to": to, "cc": cc, "subject": prefixed("Re", source["subject"]), "body": ""}


def receivers(sender: str, recipients: str, cc: str, mine: str, everybody: bool) -> tuple[str, str]:
    """Return the recipients of a reply to a message, and those of its copies."""
    to = recipients.split(", ") if sender == mine else [sender]
    if not everybody:
        return join_addresses(to), ""
    to += [address for address in recipients.split(", ") if address != mine]
    return join_addresses(to), join_addresses(set(filter(None, cc.split(", "))) - {mine} - set(to))


def prefixed(prefix: str, subject: str) -> str:
    """Return the subject of a reply, with one prefix however long the thread is."""
    return subject if subject.startswith(f"{prefix}: ") else f"{prefix}: {subject}"


def _addresses(form: SiteForm, name: str, required: bool) -> str:
    text = form.text(name, required, most=1000)
    addresses: list[str] = []
    for part in filter(str.strip, re.split(r"[,;\n]", text)):
        named = _NAMED.fullmatch(part)
        address = (named[1] or named[2] or "").strip() if named else ""
        if not _ADDRESS.fullmatch(address):
            form.error(name, f"“{part.strip()}” is not an e-mail address.")
        addresses.append(address)
    return join_addresses(addresses)


def _store(visit: Visit, kind: str, source: sqlite3.Row | None, written: tuple[str, str, str, str, int]) -> None:
    if kind == "draft" and source is not None:
        if source["folder"] != DRAFTS:
            raise PageProblem(409, "This draft was sent already.")
        visit.run(
            "UPDATE messages SET recipients = ?, cc = ?, subject = ?, body = ?, folder = ?, sent_at = ? WHERE id = ?",
            *written,
            visit.stamp,
            source["id"],
        )
        return
    account = visit.find("account", "SELECT * FROM account")
    thread = source["thread"] if source else 1 + (visit.value("SELECT max(thread) FROM messages") or 0)
    origin = source["id"] if source else None
    number = visit.run(
        "INSERT INTO messages (recipients, cc, subject, body, folder, sent_at, thread, sender_name, sender, "
        "replies_to, forwards) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        *written,
        visit.stamp,
        thread,
        account["name"],
        account["address"],
        origin if kind in ("reply", "all") else None,
        origin if kind == "forward" else None,
    )
    if kind == "forward":
        visit.run(
            "INSERT INTO attachments (message, name, kilobytes) "
            "SELECT ?, name, kilobytes FROM attachments WHERE message = ? ORDER BY id",
            number,
            origin,
        )


def _page(visit: Visit, kind: str, source: sqlite3.Row | None, form: SiteForm, status: int = 200) -> SiteReply:
    files = visit.rows("SELECT * FROM attachments WHERE message = ? ORDER BY id", source["id"]) if source else []
    return visit.page(
        "mail/compose.html", status, kind=kind, heading=KINDS[kind], source=source, files=files, form=form
    )
