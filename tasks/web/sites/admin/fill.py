"""The back office at the start of an episode of the admin site: its tables, and how a seed fills them."""

from __future__ import annotations

import datetime

from agentgym.tasks.web.sites.office import draw_companies, draw_contacts, local_part, skewed
from agentgym.tasks.web.sites.site import Build

SEGMENTS = ("Retail", "Wholesale", "Public sector", "Partner")
CUSTOMER_STATUS = ("active", "on hold", "closed")
TAGS = ("key account", "late payer", "reseller", "new", "seasonal", "export")
TERMS = (14, 30, 60)
INVOICE_STATUS = ("draft", "sent", "paid", "overdue", "cancelled")
METHODS = ("Bank transfer", "Card", "Direct debit", "Cash")
DEPARTMENTS = ("Sales", "Warehouse", "Finance", "Support", "Marketing", "IT")
ROLES = ("Viewer", "Clerk", "Accountant", "Manager", "Administrator")
PERMISSIONS = (
    "View customers", "Edit customers", "View invoices", "Edit invoices", "Delete invoices", "Manage staff",
    "Export data", "Read audit log",
)  # fmt: skip
_CUSTOMERS, _TWINS, _INVOICES, _STAFF, _MANAGERS = 58, 3, 140, 40, 6
_NOTES = (
    "", "", "", "", 'Wants invoices as "PDF only".', "Call before delivery.", "Ask for Zoë at the reception.",
    "Contract <renewed> until next year.", "Pays late, but pays.",
)  # fmt: skip


def fill_admin(build: Build) -> None:
    """Fill an empty back office."""
    _fill_customers(build)
    _fill_invoices(build)
    _fill_staff(build)
    build.insert("audit", at=build.before(1, 0.5), entry="Nightly backup finished.")


def _fill_customers(build: Build) -> None:
    rng = build.rng
    names = draw_companies(build.words, rng, _CUSTOMERS)
    # A twin is entered twice by mistake: same name, different number.
    names += rng.sample(names, _TWINS)
    cities = skewed(rng, list(dict.fromkeys(build.words.city() for _ in range(40))), len(names), 0.6)
    since = rng.sample(range(30, 4000), len(names))
    for name, city, days in zip(names, cities, sorted(since, reverse=True), strict=True):
        person = draw_contacts(build.words, rng, 1, (f"{local_part(name).replace('.', '-')}.test",))[0]
        number = build.insert(
            "customers",
            name=name,
            contact=person.name,
            email=person.address,
            phone=person.phone,
            city=city,
            segment=skewed(rng, SEGMENTS, 1)[0],
            status=skewed(rng, CUSTOMER_STATUS, 1, 2)[0],
            terms=skewed(rng, (30, 14, 60), 1)[0],
            credit_limit=rng.choice((0, rng.randrange(5, 100) * 10_000, rng.randrange(10, 80) * 50_000)),
            since=str(build.now.date() - datetime.timedelta(days=days)),
            newsletter=int(rng.random() < 0.4),
            notes=rng.choice(_NOTES),
        )
        for tag in sorted(rng.sample(TAGS, rng.choice((0, 0, 1, 1, 2)))):
            build.insert("customer_tags", customer=number, tag=tag)


def _fill_invoices(build: Build) -> None:
    rng, today = build.rng, build.now.date()
    customers = [number for (number,) in build.db.execute("SELECT id FROM customers ORDER BY id")]
    rng.shuffle(customers)
    days = sorted((int(240 * rng.random() ** 1.3) for _ in range(_INVOICES)), reverse=True)
    for count, (back, customer) in enumerate(zip(days, skewed(rng, customers, _INVOICES, 0.7), strict=True), start=1):
        issued = today - datetime.timedelta(days=back)
        terms = build.db.execute("SELECT terms FROM customers WHERE id = ?", (customer,)).fetchone()[0]
        due = issued + datetime.timedelta(days=terms)
        unpaid = ("overdue", "overdue", "cancelled") if due < today else ("sent", "sent", "draft")
        build.insert(
            "invoices",
            number=f"INV-{1000 + count}",
            customer=customer,
            issued=str(issued),
            due=str(due),
            amount=rng.choice((rng.randrange(20, 400) * 100, rng.randrange(4000, 900_000))),
            status="paid" if rng.random() < 0.5 else rng.choice(unpaid),
            method=skewed(rng, METHODS, 1)[0],
            note=rng.choice(("", "", "", "", "Second reminder sent.", "Discount of 3 % agreed", "Order “B-17”")),
        )


def _fill_staff(build: Build) -> None:
    rng = build.rng
    for number, role in enumerate(ROLES, start=1):
        build.insert("roles", name=role)
        for permission in PERMISSIONS[: 2 * number - 1]:
            if rng.random() < 0.85:
                build.insert("role_permissions", role=number, permission=permission)
    people = draw_contacts(build.words, rng, _STAFF, ("office.test",))
    for number, person in enumerate(people, start=1):
        leads = number <= _MANAGERS
        build.insert(
            "staff",
            name=person.name,
            email=person.address,
            department=DEPARTMENTS[number - 1] if leads else skewed(rng, DEPARTMENTS, 1)[0],
            role=4 if leads else rng.choice((1, 1, 2, 2, 2, 3, 5)),
            manager=None if leads else rng.randrange(1, _MANAGERS + 1),
            started=build.before(rng.randrange(20, 3500))[:10],
            hours=rng.choice((40, 40, 40, 32, 20, 38)),
            active=int(leads or rng.random() < 0.9),
        )
