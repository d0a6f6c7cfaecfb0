"""Invoices of the admin site: the table with a status that can be edited in place, bulk changes, and the form."""

from __future__ import annotations

from agentgym.tasks.web.sites.admin.fill import INVOICE_STATUS, METHODS
from agentgym.tasks.web.sites.admin.tables import Row, back_to, chosen_rows, export, filtered, note, ordered, pairs
from agentgym.tasks.web.sites.forms import SiteForm
from agentgym.tasks.web.sites.site import Routes, SiteReply
from agentgym.tasks.web.sites.visit import PageProblem, Visit

ROUTES = Routes()
COLUMNS = {
    "number": "Invoice",
    "customer_name": "Customer",
    "issued": "Issued",
    "due": "Due",
    "amount": "Amount",
    "status": "Status",
}
FIELDS = ("customer", "issued", "due", "amount", "status", "method", "note")
_LIST = "SELECT i.*, c.name AS customer_name, c.city FROM invoices i JOIN customers c ON c.id = i.customer"


@ROUTES.get("/invoices")
def show_invoices(visit: Visit) -> SiteReply:
    """Show the table of invoices; `edit` in the query turns the status of one row into a form."""
    rows = _rows(visit)
    actions = [(f"status:{value}", f"Set status {value}") for value in INVOICE_STATUS]
    return visit.page(
        "admin/invoices.html",
        pager=visit.pager(rows),
        total=sum(row["amount"] for row in rows),
        columns=COLUMNS,
        statuses=INVOICE_STATUS,
        actions=[*actions, ("delete", "Delete drafts")],
    )


@ROUTES.get("/invoices/export")
def export_invoices(visit: Visit) -> SiteReply:
    """Show an export of the filtered invoices."""
    rows = _rows(visit)
    total = sum(row["amount"] for row in rows)
    return export(visit, "Export of invoices", rows, ("number", "customer_name", *FIELDS[1:6]), total)


@ROUTES.post("/invoices/bulk")
def change_invoices(visit: Visit) -> SiteReply:
    """Apply a bulk action to the chosen invoices."""
    ids = chosen_rows(visit, "invoices")
    action, _, value = visit.form.values.get("action", "").partition(":")
    if not ids or not action:
        return back_to(visit, "/invoices", "Please choose invoices and an action.")
    for number in ids:
        if action == "status" and value in INVOICE_STATUS:
            visit.run("UPDATE invoices SET status = ? WHERE id = ?", value, number)
        elif action == "delete":
            if visit.value("SELECT status FROM invoices WHERE id = ?", number) != "draft":
                raise PageProblem(409, "Only drafts can be deleted. Nothing was changed.")
            visit.run("DELETE FROM invoices WHERE id = ?", number)
        else:
            raise PageProblem(400, "There is no such action.")
    note(visit, f"Invoices {', '.join(map(str, ids))}: {action} {value}")
    return back_to(visit, "/invoices", f"Changed {len(ids)} invoice{'s' if len(ids) > 1 else ''}.")


@ROUTES.post("/invoices/{number:int}/status")
def change_status(visit: Visit, number: int) -> SiteReply:
    """Change the status of one invoice in the table."""
    invoice = _find(visit, number)
    status = visit.form.choice("status", INVOICE_STATUS)
    if not visit.form.ok:
        raise PageProblem(422, "There is no such status.")
    visit.run("UPDATE invoices SET status = ? WHERE id = ?", status, number)
    note(visit, f"Invoice {invoice['number']}: {status}")
    return back_to(visit, "/invoices", f"{invoice['number']} is {status} now.")


@ROUTES.get("/invoices/new")
def new_invoice(visit: Visit) -> SiteReply:
    """Show an empty form for an invoice."""
    start = {"customer": visit.query.get("customer", ""), "issued": f"{visit.now:%Y-%m-%d}"}
    return _page(visit, None, SiteForm.filled(start | {"status": "draft", "method": METHODS[0]}))


@ROUTES.post("/invoices/new")
def add_invoice(visit: Visit) -> SiteReply:
    """Add an invoice; it gets the next number."""
    values = _read(visit)
    if not visit.form.ok:
        return _page(visit, None, visit.form, 422)
    number = f"INV-{next_number(visit.value('SELECT max(number) FROM invoices'))}"
    marks = ", ".join("?" * (len(FIELDS) + 1))
    visit.run(f"INSERT INTO invoices (number, {', '.join(FIELDS)}) VALUES ({marks})", number, *values)
    note(visit, f"Invoice {number} added")
    return visit.redirect("/invoices", f"Invoice {number} was added.")


@ROUTES.get("/invoices/{number:int}")
def show_invoice(visit: Visit, number: int) -> SiteReply:
    """Show one invoice as a form."""
    invoice = _find(visit, number)
    return _page(visit, invoice, SiteForm.filled(dict(invoice) | {"amount": f"{invoice['amount'] / 100:.2f}"}))


@ROUTES.post("/invoices/{number:int}")
def change_invoice(visit: Visit, number: int) -> SiteReply:
    """Change an invoice."""
    invoice = _find(visit, number)
    values = _read(visit)
    if not visit.form.ok:
        return _page(visit, invoice, visit.form, 422)
    visit.run(f"UPDATE invoices SET {', '.join(f'{name} = ?' for name in FIELDS)} WHERE id = ?", *values, number)
    note(visit, f"Invoice {invoice['number']} changed")
    return visit.redirect("/invoices", f"{invoice['number']} was saved.")


def next_number(last: str) -> int:
    """Return the number that follows that of the last invoice (`INV-1140`)."""
    return int(last.removeprefix("INV-")) + 1


def _rows(visit: Visit) -> list[Row]:
    rows = filtered(visit, visit.rows(_LIST), ("number", "customer_name"), ("status", "method"))
    since, until = visit.query.get("since") or "0", visit.query.get("until") or "9"
    return ordered(visit, [row for row in rows if since <= row["issued"] <= until], COLUMNS, "number")


def _find(visit: Visit, number: int) -> Row:
    return visit.find("invoice", f"{_LIST} WHERE i.id = ?", number)


def _read(visit: Visit) -> list[object]:
    form = visit.form
    customer = form.integer("customer", 1, 999_999)
    if form.ok and not visit.row("SELECT 1 FROM customers WHERE id = ?", customer):
        form.error("customer", "There is no customer with this number.")
    issued, due = form.date("issued"), form.date("due")
    if issued and due and due < issued:
        form.error("due", "An invoice cannot be due before it is issued.")
    amount = form.cents("amount")
    rest = [form.choice("status", INVOICE_STATUS), form.choice("method", METHODS)]
    return [customer, issued, due, amount, *rest, form.text("note", required=False, most=2000)]


def _page(visit: Visit, invoice: Row | None, form: SiteForm, status: int = 200) -> SiteReply:
    return visit.page(
        "admin/invoice.html", status, invoice=invoice, form=form, statuses=pairs(INVOICE_STATUS), methods=pairs(METHODS)
    )
