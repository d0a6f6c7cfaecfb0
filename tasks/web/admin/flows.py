"""Families of the admin site: several forms, decisions, and requests that cannot be met."""

from __future__ import annotations

from agentgym.tasks.web.admin.steps import (
    PAGE,
    adding,
    find_customer,
    find_invoice,
    open_customer,
    open_person,
    pick_customer,
    setting,
    with_chosen,
)
from agentgym.tasks.web.checks import check, exists
from agentgym.tasks.web.family import IMPOSSIBLE, WebDraft, WebScene, family
from agentgym.tasks.web.plan import answer, button, choose, fill, link, number, select, tick
from agentgym.tasks.web.sites.admin.fill import DEPARTMENTS, PERMISSIONS, SEGMENTS
from agentgym.tasks.web.sites.pages import money

_PEOPLE = (("Ottilie Brandt", "ottilie.brandt"), ("Kwame Asante", "kwame.asante"), ("Zoë D'Arcy", "zoe.darcy"))
_MANAGERS = "SELECT * FROM staff WHERE id IN (SELECT manager FROM staff WHERE manager IS NOT NULL) AND active"


@family(
    "admin.hold_largest",
    3,
    "Put the active {segment} customer with the highest credit limit on hold.",
    "Of all active customers in the segment “{segment}”, the one with the highest credit limit must be set to “on "
    "hold”.",
    "Which active customer in the segment “{segment}” has the highest credit limit? Set that customer to “on hold”.",
)
def hold_largest(scene: WebScene) -> WebDraft:
    """Filter, sort, and change the first row."""
    segment = scene.choice(SEGMENTS)
    sql = "SELECT * FROM customers WHERE segment = ? AND status = 'active' ORDER BY credit_limit DESC LIMIT 2"
    rows = scene.rows(sql, segment)
    scene.need(len(rows) == 2 and rows[0]["credit_limit"] > rows[1]["credit_limit"])
    steps = [link("Customers"), select("Segment", segment), select("Status", "active"), button("Filter")]
    steps += [
        link("Credit limit"),
        link("Credit limit"),
        *with_chosen([f"customer {rows[0]['id']}"], "Set status on hold"),
    ]
    return WebDraft(
        steps,
        {"segment": segment},
        [setting("customers", rows[0]["id"], status="on hold")],
        checks=[exists("on hold", "customers WHERE id = ? AND status = 'on hold'", rows[0]["id"])],
    )


@family(
    "admin.credit_check",
    4,
    "Check {name}: if their overdue invoices add up to more than {limit}, set the customer's status to “on hold”. "
    "Otherwise raise their credit limit to {raised}.",
    "Do {name}'s overdue invoices add up to more than {limit}? If so, put the customer on hold; if not, change the "
    "credit limit to {raised}.",
    "Add up the overdue invoices of {name}. If the sum is above {limit}, the customer goes on hold; "
    "otherwise set the credit limit to {raised}.",
)
def credit_check(scene: WebScene) -> WebDraft:
    """Add up amounts, decide, and fill in one of two forms."""
    number_ = scene.pick("SELECT customer FROM invoices WHERE status = 'overdue' GROUP BY customer")[0]
    customer = pick_customer(scene, "id = ? AND status = 'active'", number_)
    total = scene.value("SELECT sum(amount) FROM invoices WHERE customer = ? AND status = 'overdue'", number_)
    limit = max(1000, round(total * scene.rng.choice((0.5, 0.8, 1.25, 2)) / 1000) * 1000)
    scene.need(limit != total)
    raised = customer["credit_limit"] + scene.rng.choice((100_000, 250_000))
    words = {"name": customer["name"], "limit": money(limit), "raised": money(raised)}
    looking = find_invoice(customer["name"], "overdue")
    if total > limit:
        values, step = {"status": "on hold"}, choose("on hold")
    else:
        values, step = {"credit_limit": raised}, fill("Credit limit in $", f"{raised / 100:.2f}")
    (column, value), *_ = values.items()
    return WebDraft(
        [*looking, *open_customer(customer), step, button("Save customer")],
        words,
        [setting("customers", customer["id"], **values)],
        checks=[exists("decided rightly", f"customers WHERE id = ? AND {column} = ?", customer["id"], value)],
    )


@family(
    "admin.reassign",
    4,
    "{new} takes over the team of {old}: set {new} as the manager of everybody whose manager is {old}.",
    "Everyone who reports to {old} reports to {new} from now on. Change the manager of all of them, inactive "
    "people included.",
    "Change the manager of everyone who reports to {old}, active or not: from now on it is {new}.",
)
def reassign(scene: WebScene) -> WebDraft:
    """Change the manager of a whole team."""
    old, new = scene.rng.sample(scene.rows(_MANAGERS), 2)
    team = scene.rows("SELECT * FROM staff WHERE manager = ? ORDER BY name", old["id"])
    scene.need(2 <= len(team) <= PAGE)
    steps = [link("Staff"), select("Manager", old["name"]), button("Filter")]
    return WebDraft(
        [*steps, *with_chosen([person["name"] for person in team], f"Set manager {new['name']}")],
        {"old": old["name"], "new": new["name"]},
        [setting("staff", person["id"], manager=new["id"]) for person in team],
        checks=[
            exists(person["name"], "staff WHERE id = ? AND manager = ?", person["id"], new["id"]) for person in team
        ],
    )


@family(
    "admin.delete_draft",
    4,
    "Delete the invoice {number}. Only drafts can be deleted: if it is not a draft, change nothing and answer "
    "“impossible”.",
    "Invoice {number} was a mistake, remove it. If the system does not allow that because it is not a draft, leave "
    "everything as it is and answer “impossible”.",
    "Please delete invoice {number}, provided that it is a draft. If it is not, change nothing and answer "
    "“impossible”.",
)
def delete_draft(scene: WebScene) -> WebDraft:
    """Delete a row if that is allowed."""
    draft = scene.rng.random() < 0.5
    invoice = scene.pick(f"SELECT * FROM invoices WHERE status {'=' if draft else '<>'} 'draft'")
    looking, words = find_invoice(invoice["number"]), {"number": invoice["number"]}
    if not draft:
        return WebDraft([*looking, answer(IMPOSSIBLE)], words, answer=IMPOSSIBLE)
    return WebDraft(
        [*looking, *with_chosen([invoice["number"]], "Delete drafts")],
        words,
        [("DELETE FROM invoices WHERE id = ?", [invoice["id"]])],
        checks=[check("deleted", "SELECT count(*) = 0 FROM invoices WHERE id = ?", invoice["id"])],
    )


@family(
    "admin.cancel_old",
    4,
    "Cancel every invoice of {name} that is still a draft or overdue, and add the note “{note}” to the customer "
    "(instead of the present notes).",
    "We gave up on {name}: set the status of all of their drafts and overdue invoices to “cancelled”, and replace the "
    "customer's notes with “{note}”.",
    "We no longer work with {name}. Set each of their invoices that is a draft or overdue to “cancelled”, "
    "and let the customer's notes read “{note}” and nothing else.",
)
def cancel_old(scene: WebScene) -> WebDraft:
    """Search twice, change several rows, and fill in a form."""
    unpaid = "status IN ('draft', 'overdue')"
    customer_id = scene.pick(f"SELECT customer FROM invoices WHERE {unpaid} GROUP BY customer HAVING count(*) > 1")[0]
    customer = pick_customer(scene, "id = ?", customer_id)
    listed = "SELECT count(*) FROM invoices i JOIN customers c ON c.id = i.customer WHERE instr(c.name, ?)"
    scene.need(scene.value(listed, customer["name"]) <= PAGE)
    invoices = scene.rows(f"SELECT * FROM invoices WHERE customer = ? AND {unpaid}", customer_id)
    note = scene.choice(("No longer our customer.", "Dispute settled, nothing open.", "Closed by 'agreement'."))
    form = [*open_customer(customer), fill("Notes", note), button("Save customer")]
    return WebDraft(
        [
            *find_invoice(customer["name"]),
            *with_chosen([invoice["number"] for invoice in invoices], "Set status cancelled"),
            *form,
        ],
        {"name": customer["name"], "note": note},
        [setting("customers", customer_id, notes=note)]
        + [setting("invoices", invoice["id"], status="cancelled") for invoice in invoices],
        checks=[exists("note", "customers WHERE id = ? AND notes = ?", customer_id, note)]
        + [
            exists(invoice["number"], "invoices WHERE id = ? AND status = 'cancelled'", invoice["id"])
            for invoice in invoices
        ],
    )


@family(
    "admin.merge_twins",
    5,
    "There are two customers called {name}. Keep the one that has been a customer longer: move all invoices of the "
    "other one to it (change the customer number in each), and set the other one's status to “closed”.",
    "{name} is in the table twice. Give all invoices of the newer entry (by “customer since”) to the older entry by "
    "changing their customer number, then set the newer entry to “closed”.",
    "We entered {name} as a customer twice. Move the invoices of the later entry to the earlier one (by "
    "changing the customer number in each of them), and close the later entry by setting its status to "
    "“closed”.",
)
def merge_twins(scene: WebScene) -> WebDraft:
    """Merge a record that was entered twice."""
    name = scene.pick("SELECT name FROM customers GROUP BY name HAVING count(*) = 2")[0]
    older, newer = scene.rows("SELECT * FROM customers WHERE name = ? ORDER BY since", name)
    scene.need(older["since"] < newer["since"] and newer["status"] != "closed")
    invoices = scene.rows("SELECT * FROM invoices WHERE customer = ? ORDER BY issued DESC, id DESC", newer["id"])
    scene.need(1 <= len(invoices) <= 3)
    steps = []
    for invoice in invoices:
        steps += [*find_invoice(invoice["number"]), link(invoice["number"])]
        steps += [number("Customer number", older["id"]), button("Save invoice")]
    closing = with_chosen([f"customer {newer['id']}"], "Set status closed")
    return WebDraft(
        [*steps, *find_customer(name), *closing],
        {"name": name},
        [setting("invoices", invoice["id"], customer=older["id"]) for invoice in invoices]
        + [setting("customers", newer["id"], status="closed")],
        checks=[exists("closed", "customers WHERE id = ? AND status = 'closed'", newer["id"])]
        + [
            exists(invoice["number"], "invoices WHERE id = ? AND customer = ?", invoice["id"], older["id"])
            for invoice in invoices
        ],
    )


@family(
    "admin.leaver",
    5,
    "{old} leaves the company. Make {new} the manager of everybody in {old}'s team, move {new} to the department "
    "{department}, and deactivate {old}'s account.",
    "{old} is leaving and {new} steps in: {new} becomes the manager of all whose manager was {old}, changes to the "
    "department {department}, and {old}'s account is deactivated.",
    "{new} takes over from {old}, who is leaving. Everybody managed by {old} gets {new} as the manager, "
    "{new} moves to the department {department}, and the account of {old} is deactivated.",
)
def leaver(scene: WebScene) -> WebDraft:
    """Make three changes that belong together."""
    old, new = scene.rng.sample(scene.rows(_MANAGERS), 2)
    team = scene.rows("SELECT * FROM staff WHERE manager = ? ORDER BY name", old["id"])
    scene.need(2 <= len(team) <= 7)
    department = scene.choice([name for name in DEPARTMENTS if name != new["department"]])
    steps = [link("Staff"), select("Manager", old["name"]), button("Filter")]
    steps += with_chosen([person["name"] for person in team], f"Set manager {new['name']}")
    steps += [*open_person(new), select("Department", department), button("Save person")]
    steps += [*open_person(old), tick("Active account"), button("Save person")]
    return WebDraft(
        steps,
        {"old": old["name"], "new": new["name"], "department": department},
        [setting("staff", person["id"], manager=new["id"]) for person in team]
        + [setting("staff", new["id"], department=department), setting("staff", old["id"], active=0)],
        checks=[
            check("team moved", "SELECT count(*) = 0 FROM staff WHERE manager = ?", old["id"]),
            exists("department", "staff WHERE id = ? AND department = ?", new["id"], department),
            exists("deactivated", "staff WHERE id = ? AND NOT active", old["id"]),
        ],
    )


@family(
    "admin.onboard",
    5,
    "Add {name} ({email}) to the staff: department {department}, role {role}, manager {manager}, starting today with "
    "{hours} hours a week and an active account. Also make sure that the role {role} has the permission "
    "“{permission}”; if it has it already, leave the roles alone.",
    "{name} starts today in {department} as {role}, {hours} hours a week, with {manager} as the manager; the e-mail "
    "address is {email} and the account is active. The role {role} needs the permission “{permission}”: add it if it "
    "is missing.",
    "We have a new colleague: {name}, {email}. Add them to the staff with an active account, in the "
    "department {department}, with the role {role}, {hours} hours a week from today on, and {manager} as the "
    "manager. Then see to it that the role {role} has the permission “{permission}”; change no other "
    "permission.",
)
def onboard(scene: WebScene) -> WebDraft:
    """Add a person, and give their role a permission that it may lack."""
    name, local = scene.choice(_PEOPLE)
    role, manager = scene.pick("SELECT * FROM roles WHERE id < 4"), scene.choice(scene.rows(_MANAGERS))
    permission, department = scene.choice(PERMISSIONS[:6]), scene.choice(DEPARTMENTS)
    hours, email = scene.choice((18, 25, 30, 36)), f"{local}@office.test"
    held = scene.rows("SELECT 1 FROM role_permissions WHERE role = ? AND permission = ?", role["id"], permission)
    steps = [
        link("Staff"),
        link("Add a person"),
        fill("Name", name),
        fill("E-mail", email),
        select("Department", department),
    ]
    steps += [
        choose(role["name"]),
        select("Manager", manager["name"]),
        number("Hours a week", hours),
        button("Save person"),
    ]
    steps += [link("Roles")]
    steps += [] if held else [tick(f"{role['name']}: {permission}"), button("Save permissions")]
    row = {"name": name, "email": email, "department": department, "role": role["id"], "manager": manager["id"]}
    effect = [adding("staff", **row, started=scene.today, hours=hours, active=1)]
    checks = [exists("added", "staff WHERE email = ?", email)]
    if not held:
        effect.append(adding("role_permissions", role=role["id"], permission=permission))
        checks.append(exists("granted", "role_permissions WHERE role = ? AND permission = ?", role["id"], permission))
    words = {"role": role["name"], "manager": manager["name"], "hours": hours, "permission": permission}
    return WebDraft(steps, row | words, effect, checks=checks)
