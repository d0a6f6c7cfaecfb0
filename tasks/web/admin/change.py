"""Families of the admin site: one form, or one change to several rows."""

from __future__ import annotations

from datetime import date, timedelta

from agentgym.tasks.web.admin.steps import (
    PAGE,
    adding,
    find_invoice,
    open_customer,
    open_person,
    pick_customer,
    pick_person,
    setting,
    with_chosen,
)
from agentgym.tasks.web.checks import check, exists
from agentgym.tasks.web.family import WebDraft, WebScene, family
from agentgym.tasks.web.plan import button, choose, fill, link, number, select, tick
from agentgym.tasks.web.sites.admin.fill import (
    DEPARTMENTS,
    INVOICE_STATUS,
    METHODS,
    PERMISSIONS,
    SEGMENTS,
    TAGS,
    TERMS,
)
from agentgym.tasks.web.sites.admin.invoices import next_number
from agentgym.tasks.web.sites.pages import money

NOTES = (
    "Ring the bell twice.", "New contract from next year on.", 'Prefers "paper" invoices.', "Délivery only on Mondays.",
    "Do not call before 10:00.", "Ask for O'Brien & Co's reference.",
)  # fmt: skip
NEW_CUSTOMERS = (
    ("Tidewater Press", "Nora Ekström", "nora@tidewater.test"),
    ("Café Lumière", "René L'Hôpital", "rene@lumiere.test"),
    ("Dünya & Partners", "Selin Ak", "selin.ak@dunya.test"),
    ("Lakeside School", "Tom O'Hara", "office@lakeside.test"),
)


@family(
    "admin.invoice_status",
    1,
    "Set the status of invoice {number} to “{status}”.",
    "Invoice {number} should have the status “{status}”. Please change it.",
    "Mark {number} as “{status}”.",
)
def invoice_status(scene: WebScene) -> WebDraft:
    """Change a cell in place."""
    invoice = scene.pick("SELECT * FROM invoices")
    status = scene.choice([value for value in INVOICE_STATUS if value != invoice["status"]])
    steps = [
        link(f"Change status of {invoice['number']}"),
        select(f"Status of {invoice['number']}", status),
        button("Save"),
    ]
    return WebDraft(
        [*find_invoice(invoice["number"]), *steps],
        {"number": invoice["number"], "status": status},
        [setting("invoices", invoice["id"], status=status)],
        checks=[exists("changed", "invoices WHERE id = ? AND status = ?", invoice["id"], status)],
    )


@family(
    "admin.edit_customer",
    2,
    "{name} has a new phone number: {phone}. Enter it, and replace the notes of this customer with “{note}”.",
    "Update the customer {name}: phone {phone}, notes “{note}” (instead of what is there).",
    "Please correct the entry of {name}: the phone number is {phone}, and the notes should now be “{note}” "
    "and nothing else.",
)
def edit_customer(scene: WebScene) -> WebDraft:
    """Change two fields of a form."""
    customer = pick_customer(scene)
    phone, text = f"+44 20 7946 0{scene.rng.randrange(100, 1000)}", scene.choice(NOTES)
    scene.need(customer["phone"] != phone)
    return WebDraft(
        [*open_customer(customer), fill("Phone", phone), fill("Notes", text), button("Save customer")],
        {"name": customer["name"], "phone": phone, "note": text},
        [setting("customers", customer["id"], phone=phone, notes=text)],
        checks=[
            exists("phone", "customers WHERE id = ? AND phone = ?", customer["id"], phone),
            exists("notes", "customers WHERE id = ? AND notes = ?", customer["id"], text),
        ],
    )


@family(
    "admin.customer_options",
    2,
    "Change the entry of {name}: the segment is “{segment}”, they have {terms} days to pay, and the customer {flag}.",
    "{name} gets {terms} days to pay from now on, belongs to the segment “{segment}”, and {flag}. Save that.",
    "Please update {name}: the segment is “{segment}”, payment is due after {terms} days, and the customer {flag}.",
)
def customer_options(scene: WebScene) -> WebDraft:
    """Change drop-down lists and a check box."""
    customer = pick_customer(scene)
    segment = scene.choice([value for value in SEGMENTS if value != customer["segment"]])
    terms = scene.choice([value for value in TERMS if value != customer["terms"]])
    flag = "no longer gets the newsletter" if customer["newsletter"] else "gets the newsletter"
    steps = [select("Segment", segment), select("Days to pay", str(terms)), tick("Gets the newsletter")]
    values = {"segment": segment, "terms": terms, "newsletter": 1 - customer["newsletter"]}
    return WebDraft(
        [*open_customer(customer), *steps, button("Save customer")],
        {"name": customer["name"], "segment": segment, "terms": terms, "flag": flag},
        [setting("customers", customer["id"], **values)],
        checks=[
            exists(name, f"customers WHERE id = ? AND {name} = ?", customer["id"], values[name]) for name in values
        ],
    )


@family(
    "admin.person_hours",
    2,
    "{name} works {hours} hours a week in {department} from now on. Change that.",
    "Move {name} to the department {department} and set the weekly hours to {hours}.",
    "From now on {name} belongs to the department {department} and works {hours} hours a week. Please update "
    "the entry.",
)
def person_hours(scene: WebScene) -> WebDraft:
    """Change a number and a drop-down list."""
    person = pick_person(scene, "manager IS NOT NULL")
    department = scene.choice([name for name in DEPARTMENTS if name != person["department"]])
    hours = scene.choice([value for value in (16, 24, 30, 36) if value != person["hours"]])
    steps = [select("Department", department), number("Hours a week", hours), button("Save person")]
    return WebDraft(
        [*open_person(person), *steps],
        {"name": person["name"], "department": department, "hours": hours},
        [setting("staff", person["id"], department=department, hours=hours)],
        checks=[
            exists("department", "staff WHERE id = ? AND department = ?", person["id"], department),
            exists("hours", "staff WHERE id = ? AND hours = ?", person["id"], hours),
        ],
    )


@family(
    "admin.new_customer",
    3,
    "Add a customer: {name}, contact person {contact}, e-mail {email}, city {city}, segment “{segment}”, status “on "
    "hold”, credit limit {limit}, tags “{tag}” and “{tag2}”. Leave everything else as the form suggests.",
    "New customer {name} in {city}. Contact: {contact}, {email}. Segment “{segment}”, credit limit {limit}, on hold "
    "for now. Tag it “{tag}” and “{tag2}”. Do not touch the other fields.",
    "Please enter a new customer: {name} from {city}, contact person {contact} ({email}), in the segment "
    "“{segment}”. The status is “on hold”, the credit limit {limit}, and the tags are “{tag}” and “{tag2}”. "
    "Keep what the form suggests for the rest.",
)
def new_customer(scene: WebScene) -> WebDraft:
    """Fill in a long form."""
    name, contact, email = scene.choice(NEW_CUSTOMERS)
    city, segment, limit = (
        scene.choice(("Oslo", "Genève", "Łódź", "Hull")),
        scene.choice(SEGMENTS),
        scene.rng.randrange(2, 90),
    )
    tags = sorted(scene.rng.sample(TAGS, 2))
    values = [("Name", name), ("Contact person", contact), ("E-mail", email), ("City", city)]
    steps = [link("Customers"), link("Add a customer"), *(fill(*pair) for pair in values), select("Segment", segment)]
    steps += [choose("on hold"), fill("Credit limit in $", f"{limit}00"), *map(tick, tags), button("Save customer")]
    row = {"name": name, "contact": contact, "email": email, "phone": "", "city": city, "segment": segment}
    row |= {
        "status": "on hold",
        "terms": 30,
        "credit_limit": limit * 10_000,
        "since": scene.today,
        "newsletter": 0,
        "notes": "",
    }
    tagging = "INSERT INTO customer_tags SELECT max(id), ? FROM customers"
    return WebDraft(
        steps,
        row | {"limit": money(limit * 10_000), "tag": tags[0], "tag2": tags[1]},
        [adding("customers", **row), *((tagging, [tag]) for tag in tags)],
        checks=[
            exists("added", "customers WHERE name = ?", name),
            exists("tagged", "customer_tags JOIN customers ON id = customer WHERE name = ? AND tag = ?", name, tags[0]),
        ],
    )


@family(
    "admin.new_invoice",
    3,
    "Write an invoice of {amount} for {name}, issued today and due {days} days later, to be paid by {method}. Status "
    "“sent”, note “{note}”.",
    "{name} must pay {amount} by {method}. Add the invoice: issued today, due in {days} days, already sent; the note "
    "is “{note}”.",
    "Create an invoice for {name}: {amount}, payment by {method}, issued today and due in {days} days. It "
    "has been sent already, so set the status to “sent”. The note should be “{note}”.",
)
def new_invoice(scene: WebScene) -> WebDraft:
    """Look up a number and fill in a form."""
    customer = pick_customer(scene, "status = 'active'")
    amount, days = scene.rng.randrange(1000, 90_000), scene.rng.choice((10, 14, 21, 30))
    method, text = scene.choice(METHODS), scene.choice(NOTES)
    due = str(date.fromisoformat(scene.today) + timedelta(days=days))
    steps = [link("New invoice for this customer"), fill("Due", due), fill("Amount in $", f"{amount / 100:.2f}")]
    steps += [choose("sent"), select("Payment method", method), fill("Note", text), button("Save invoice")]
    row = {"customer": customer["id"], "issued": scene.today, "due": due, "amount": amount, "status": "sent"}
    last = next_number(scene.value("SELECT max(number) FROM invoices"))
    return WebDraft(
        [*open_customer(customer), *steps],
        {"name": customer["name"], "amount": money(amount), "days": days, "method": method.lower(), "note": text},
        [adding("invoices", number=f"INV-{last}", **row, method=method, note=text)],
        checks=[exists("added", "invoices WHERE customer = ? AND number = ?", customer["id"], f"INV-{last}")],
    )


@family(
    "admin.bulk_paid",
    3,
    "{name} paid all overdue invoices. Set them to “paid”.",
    "All overdue invoices of {name} are paid now. Change their status.",
    "Good news: {name} has settled every overdue invoice. Mark those invoices as “paid”.",
)
def bulk_paid(scene: WebScene) -> WebDraft:
    """Change several rows at once."""
    number = scene.pick("SELECT customer FROM invoices WHERE status = 'overdue' GROUP BY customer HAVING count(*) > 1")[
        0
    ]
    customer = pick_customer(scene, "id = ?", number)
    invoices = scene.rows("SELECT * FROM invoices WHERE customer = ? AND status = 'overdue'", number)
    listed = (
        "SELECT count(*) FROM invoices i JOIN customers c ON c.id = customer "
        "WHERE instr(c.name, ?) AND i.status = 'overdue'"
    )
    scene.need(scene.value(listed, customer["name"]) == len(invoices) <= PAGE)
    steps = with_chosen([invoice["number"] for invoice in invoices], "Set status paid")
    return WebDraft(
        [*find_invoice(customer["name"], "overdue"), *steps],
        {"name": customer["name"]},
        [setting("invoices", invoice["id"], status="paid") for invoice in invoices],
        checks=[
            exists(invoice["number"], "invoices WHERE id = ? AND status = 'paid'", invoice["id"])
            for invoice in invoices
        ],
    )


@family(
    "admin.permissions",
    3,
    "{role}s must be able to “{grant}”, but no longer to “{revoke}”. Change the permissions of that role.",
    "Change what the role {role} may do: give it “{grant}” and take “{revoke}” away.",
    "Please change the permissions of the role {role}: add “{grant}” and remove “{revoke}”.",
)
def permissions(scene: WebScene) -> WebDraft:
    """Tick and untick boxes in a table of check boxes."""
    role = scene.pick("SELECT * FROM roles WHERE id IN (SELECT role FROM role_permissions)")
    held = [row[0] for row in scene.rows("SELECT permission FROM role_permissions WHERE role = ?", role["id"])]
    grant, revoke = scene.choice([name for name in PERMISSIONS if name not in held]), scene.choice(held)
    steps = [
        link("Roles"),
        tick(f"{role['name']}: {grant}"),
        tick(f"{role['name']}: {revoke}"),
        button("Save permissions"),
    ]
    row = "role_permissions WHERE role = ? AND permission = ?"
    return WebDraft(
        steps,
        {"role": role["name"], "grant": grant, "revoke": revoke},
        [(f"DELETE FROM {row}", [role["id"], revoke]), adding("role_permissions", role=role["id"], permission=grant)],
        checks=[
            exists("granted", row, role["id"], grant),
            check("revoked", f"SELECT count(*) = 0 FROM {row}", role["id"], revoke),
        ],
    )
