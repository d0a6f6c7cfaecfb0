"""Customers of the admin site: the table, bulk changes, and the form of one customer."""

from __future__ import annotations

from agentgym.tasks.web.sites.admin.fill import CUSTOMER_STATUS, SEGMENTS, TAGS, TERMS
from agentgym.tasks.web.sites.admin.tables import Row, back_to, chosen_rows, export, filtered, note, ordered, pairs
from agentgym.tasks.web.sites.forms import SiteForm
from agentgym.tasks.web.sites.site import Routes, SiteReply
from agentgym.tasks.web.sites.visit import PageProblem, Visit

ROUTES = Routes()
COLUMNS = {
    "id": "Number",
    "name": "Name",
    "contact": "Contact",
    "city": "City",
    "segment": "Segment",
    "status": "Status",
    "credit_limit": "Credit limit",
}
FIELDS = (
    "name", "contact", "email", "phone", "city", "segment", "status", "terms", "credit_limit", "since", "newsletter",
    "notes",
)  # fmt: skip
_LIST = """
SELECT c.*, (SELECT group_concat(tag, ', ') FROM (SELECT tag FROM customer_tags t WHERE t.customer = c.id ORDER BY tag))
    AS tags FROM customers c
"""


@ROUTES.get("/customers")
def show_customers(visit: Visit) -> SiteReply:
    """Show the table of customers."""
    actions = [*((f"status:{value}", f"Set status {value}") for value in CUSTOMER_STATUS)]
    actions += [(f"{kind}:{tag}", f"{kind.capitalize()} tag {tag}") for kind in ("add", "remove") for tag in TAGS]
    return visit.page(
        "admin/customers.html",
        pager=visit.pager(_rows(visit)),
        columns=COLUMNS,
        segments=SEGMENTS,
        statuses=CUSTOMER_STATUS,
        tags=TAGS,
        actions=actions,
    )


@ROUTES.get("/customers/export")
def export_customers(visit: Visit) -> SiteReply:
    """Show an export of the filtered customers."""
    return export(visit, "Export of customers", _rows(visit), ("id", *FIELDS[:6], "status"))


@ROUTES.post("/customers/bulk")
def change_customers(visit: Visit) -> SiteReply:
    """Apply a bulk action to the chosen customers."""
    ids = chosen_rows(visit, "customers")
    action, _, value = visit.form.values.get("action", "").partition(":")
    if not ids or not action:
        return back_to(visit, "/customers", "Please choose customers and an action.")
    if action == "status" and value in CUSTOMER_STATUS:
        for number in ids:
            visit.run("UPDATE customers SET status = ? WHERE id = ?", value, number)
    elif action in ("add", "remove") and value in TAGS:
        for number in ids:
            visit.run("DELETE FROM customer_tags WHERE customer = ? AND tag = ?", number, value)
            if action == "add":
                visit.run("INSERT INTO customer_tags VALUES (?, ?)", number, value)
    else:
        raise PageProblem(400, "There is no such action.")
    note(visit, f"Customers {', '.join(map(str, ids))}: {action} {value}")
    return back_to(visit, "/customers", f"Changed {len(ids)} customer{'s' if len(ids) > 1 else ''}.")


@ROUTES.get("/customers/new")
def new_customer(visit: Visit) -> SiteReply:
    """Show an empty form for a customer."""
    start = {"segment": SEGMENTS[0], "status": CUSTOMER_STATUS[0], "terms": 30, "since": f"{visit.now:%Y-%m-%d}"}
    return _page(visit, None, SiteForm.filled(start | {"credit_limit": "0.00"}), (), False)


@ROUTES.post("/customers/new")
def add_customer(visit: Visit) -> SiteReply:
    """Add a customer."""
    values, tags = _read(visit.form)
    if not visit.form.ok:
        return _page(visit, None, visit.form, tags, visit.form.flag("newsletter"), 422)
    number = visit.run(f"INSERT INTO customers ({', '.join(FIELDS)}) VALUES ({', '.join('?' * len(FIELDS))})", *values)
    _set_tags(visit, number, tags)
    note(visit, f"Customer {number} added")
    return visit.redirect(f"/customers/{number}", f"Customer {number} was added.")


@ROUTES.get("/customers/{number:int}")
def show_customer(visit: Visit, number: int) -> SiteReply:
    """Show one customer: the form and the invoices."""
    customer = _find(visit, number)
    values = dict(customer) | {"credit_limit": f"{customer['credit_limit'] / 100:.2f}"}
    return _page(visit, customer, SiteForm.filled(values), (customer["tags"] or "").split(", "), customer["newsletter"])


@ROUTES.post("/customers/{number:int}")
def change_customer(visit: Visit, number: int) -> SiteReply:
    """Change a customer."""
    customer = _find(visit, number)
    values, tags = _read(visit.form)
    if not visit.form.ok:
        return _page(visit, customer, visit.form, tags, visit.form.flag("newsletter"), 422)
    visit.run(f"UPDATE customers SET {', '.join(f'{name} = ?' for name in FIELDS)} WHERE id = ?", *values, number)
    _set_tags(visit, number, tags)
    note(visit, f"Customer {number} changed")
    return visit.redirect("/customers", f"{values[0]} was saved.")


def _rows(visit: Visit) -> list[Row]:
    rows = filtered(visit, visit.rows(_LIST), ("name", "contact", "email", "city"), ("segment", "status"))
    tag = visit.query.get("tag")
    rows = [row for row in rows if not tag or tag in (row["tags"] or "").split(", ")]
    return ordered(visit, rows, COLUMNS, "id")


def _find(visit: Visit, number: int) -> Row:
    return visit.find("customer", f"{_LIST} WHERE c.id = ?", number)


def _read(form: SiteForm) -> tuple[list[object], list[str]]:
    values: list[object] = [form.text("name", most=80), form.text("contact", most=80), form.email("email")]
    values += [form.text("phone", required=False, most=40), form.text("city", most=60)]
    values += [form.choice("segment", SEGMENTS), form.choice("status", CUSTOMER_STATUS)]
    terms = form.choice("terms", [str(days) for days in TERMS])
    values += [
        int(terms) if form.ok else 0,
        form.cents("credit_limit"),
        form.date("since"),
        int(form.flag("newsletter")),
    ]
    values += [form.text("notes", required=False, most=2000)]
    return values, form.choices("tag", TAGS)


def _set_tags(visit: Visit, number: int, tags: list[str]) -> None:
    visit.run("DELETE FROM customer_tags WHERE customer = ?", number)
    for tag in tags:
        visit.run("INSERT INTO customer_tags VALUES (?, ?)", number, tag)


def _page(
    visit: Visit, customer: Row | None, form: SiteForm, tags: object, newsletter: bool, status: int = 200
) -> SiteReply:
    sql = "SELECT * FROM invoices WHERE customer = ? ORDER BY issued DESC, id DESC LIMIT 8"
    return visit.page(
        "admin/customer.html",
        status,
        customer=customer,
        form=form,
        chosen=tags,
        newsletter=newsletter,
        invoices=visit.rows(sql, customer["id"]) if customer else [],
        segments=pairs(SEGMENTS),
        statuses=pairs(CUSTOMER_STATUS),
        terms=pairs(TERMS),
        tags=pairs(TAGS),
    )
