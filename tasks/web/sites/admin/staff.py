"""Staff of the admin site: the table, bulk changes, the form of one person, and the permissions of each role."""

from __future__ import annotations

from agentgym.tasks.web.sites.admin.fill import DEPARTMENTS, PERMISSIONS
from agentgym.tasks.web.sites.admin.tables import Row, back_to, chosen_rows, filtered, named, note, ordered, pairs
from agentgym.tasks.web.sites.forms import SiteForm
from agentgym.tasks.web.sites.site import Routes, SiteReply
from agentgym.tasks.web.sites.visit import PageProblem, Visit

ROUTES = Routes()
COLUMNS = {
    "name": "Name",
    "department": "Department",
    "role_name": "Role",
    "manager_name": "Manager",
    "started": "Started",
    "hours": "Hours",
    "state": "State",
}
FIELDS = ("name", "email", "department", "role", "manager", "started", "hours", "active")
_LIST = """
SELECT s.*, r.name AS role_name, coalesce(m.name, '') AS manager_name,
    CASE WHEN s.active THEN 'active' ELSE 'inactive' END AS state
FROM staff s JOIN roles r ON r.id = s.role LEFT JOIN staff m ON m.id = s.manager
"""


@ROUTES.get("/staff")
def show_staff(visit: Visit) -> SiteReply:
    """Show the table of staff."""
    rows = filtered(visit, visit.rows(_LIST), ("name", "email"), ("department", "role_name", "manager_name", "state"))
    actions = [(f"department:{name}", f"Move to {name}") for name in DEPARTMENTS]
    actions += [(f"manager:{row['id']}", f"Set manager {row['name']}") for row in _managers(visit)]
    return visit.page(
        "admin/staff.html",
        pager=visit.pager(ordered(visit, rows, COLUMNS, "name")),
        columns=COLUMNS,
        departments=DEPARTMENTS,
        roles=_roles(visit),
        managers=_managers(visit),
        actions=[*actions, ("active:1", "Activate"), ("active:0", "Deactivate")],
    )


@ROUTES.post("/staff/bulk")
def change_staff(visit: Visit) -> SiteReply:
    """Apply a bulk action to the chosen people."""
    ids = chosen_rows(visit, "staff")
    action, _, value = visit.form.values.get("action", "").partition(":")
    if not ids or not action:
        return back_to(visit, "/staff", "Please choose people and an action.")
    managers = {str(row["id"]) for row in _managers(visit)}
    valid = {"department": DEPARTMENTS, "manager": managers, "active": ("0", "1")}
    if value not in valid.get(action, ()):
        raise PageProblem(400, "There is no such action.")
    for number in ids:
        if action == "manager" and value == str(number):
            raise PageProblem(409, "Nobody can manage themselves. Nothing was changed.")
        stored = value if action == "department" else int(value)
        visit.run(f"UPDATE staff SET {action} = ? WHERE id = ?", stored, number)
    note(visit, f"Staff {', '.join(map(str, ids))}: {action} {value}")
    return back_to(visit, "/staff", f"Changed {len(ids)} {'people' if len(ids) > 1 else 'person'}.")


@ROUTES.get("/staff/new")
def new_person(visit: Visit) -> SiteReply:
    """Show an empty form for a new member of staff."""
    start = {"role": 1, "department": DEPARTMENTS[0], "started": f"{visit.now:%Y-%m-%d}", "hours": 40}
    return _page(visit, None, SiteForm.filled(start), True)


@ROUTES.post("/staff/new")
def add_person(visit: Visit) -> SiteReply:
    """Add a member of staff."""
    values = _read(visit, 0)
    if not visit.form.ok:
        return _page(visit, None, visit.form, visit.form.flag("active"), 422)
    visit.run(f"INSERT INTO staff ({', '.join(FIELDS)}) VALUES ({', '.join('?' * len(FIELDS))})", *values)
    note(visit, f"Staff: {values[0]} added")
    return visit.redirect("/staff", f"{values[0]} was added.")


@ROUTES.get("/staff/{number:int}")
def show_person(visit: Visit, number: int) -> SiteReply:
    """Show one member of staff as a form."""
    person = visit.find("person", f"{_LIST} WHERE s.id = ?", number)
    return _page(visit, person, SiteForm.filled(dict(person)), bool(person["active"]))


@ROUTES.post("/staff/{number:int}")
def change_person(visit: Visit, number: int) -> SiteReply:
    """Change the data of a member of staff."""
    person = visit.find("person", f"{_LIST} WHERE s.id = ?", number)
    values = _read(visit, number)
    if not visit.form.ok:
        return _page(visit, person, visit.form, visit.form.flag("active"), 422)
    visit.run(f"UPDATE staff SET {', '.join(f'{name} = ?' for name in FIELDS)} WHERE id = ?", *values, number)
    note(visit, f"Staff: {values[0]} changed")
    return visit.redirect("/staff", f"{values[0]} was saved.")


@ROUTES.get("/roles")
def show_roles(visit: Visit) -> SiteReply:
    """Show the permissions of each role."""
    held = {(row["role"], row["permission"]) for row in visit.rows("SELECT * FROM role_permissions")}
    return visit.page("admin/roles.html", roles=_roles(visit), permissions=PERMISSIONS, held=held)


@ROUTES.post("/roles")
def change_roles(visit: Visit) -> SiteReply:
    """Save the whole table of permissions."""
    valid = [f"{role['id']}:{permission}" for role in _roles(visit) for permission in PERMISSIONS]
    granted = visit.form.choices("granted", valid)
    if not visit.form.ok:
        raise PageProblem(400, "There is no such permission.")
    visit.run("DELETE FROM role_permissions")
    for item in granted:
        role, _, permission = item.partition(":")
        visit.run("INSERT INTO role_permissions VALUES (?, ?)", int(role), permission)
    note(visit, "Permissions changed")
    return visit.redirect("/roles", "The permissions were saved.")


def _roles(visit: Visit) -> list[Row]:
    return visit.rows("SELECT * FROM roles ORDER BY id")


def _managers(visit: Visit) -> list[Row]:
    return visit.rows(
        "SELECT s.* FROM staff s JOIN roles r ON r.id = s.role "
        "WHERE r.name = 'Manager' OR s.id IN (SELECT manager FROM staff) ORDER BY s.name"
    )


def _read(visit: Visit, number: int) -> list[object]:
    form = visit.form
    name, email = form.text("name", most=80), form.email("email")
    if visit.row("SELECT 1 FROM staff WHERE email = ? AND id <> ?", email, number):
        form.error("email", "Somebody else has this address.")
    department = form.choice("department", DEPARTMENTS)
    role = form.choice("role", [str(row["id"]) for row in _roles(visit)])
    managers = [str(row["id"]) for row in _managers(visit) if row["id"] != number]
    manager = form.choice("manager", managers, required=False)
    started, hours = form.date("started"), form.integer("hours", 1, 60)
    if not form.ok:
        return []
    return [
        name,
        email,
        department,
        int(role),
        int(manager) if manager else None,
        started,
        hours,
        int(form.flag("active")),
    ]


def _page(visit: Visit, person: Row | None, form: SiteForm, active: bool, status: int = 200) -> SiteReply:
    number = person["id"] if person else 0
    return visit.page(
        "admin/person.html",
        status,
        person=person,
        form=form,
        active=active,
        departments=pairs(DEPARTMENTS),
        roles=named(_roles(visit)),
        managers=[pair for pair in named(_managers(visit)) if pair[0] != number],
    )
