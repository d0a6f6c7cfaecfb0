"""The address book of the mail site."""

from __future__ import annotations

from agentgym.tasks.web.sites.forms import SiteForm
from agentgym.tasks.web.sites.office import fold
from agentgym.tasks.web.sites.reply import SiteReply
from agentgym.tasks.web.sites.site import Routes
from agentgym.tasks.web.sites.visit import Visit

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
