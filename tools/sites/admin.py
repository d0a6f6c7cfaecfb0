"""The admin site: a back office with customers, invoices, staff and permissions, and a log of what was changed."""

from __future__ import annotations

from typing import Any

from agentgym.tools.sites.admin_customers import ROUTES as CUSTOMER_ROUTES
from agentgym.tools.sites.admin_data import INVOICE_STATUS, SCHEMA, fill_admin
from agentgym.tools.sites.admin_invoices import ROUTES as INVOICE_ROUTES
from agentgym.tools.sites.admin_staff import ROUTES as STAFF_ROUTES
from agentgym.tools.sites.site import Routes, Site
from agentgym.tools.sites.visit import Reply, Visit

ROUTES = Routes()
_PAGES = {
    "/customers": "Customers",
    "/invoices": "Invoices",
    "/staff": "Staff",
    "/roles": "Roles",
    "/audit": "Audit log",
}


@ROUTES.get("/")
def overview(visit: Visit) -> Reply:
    """Where the back office opens: a few numbers."""
    sums = visit.rows("SELECT status, count(*) AS count, sum(amount) AS amount FROM invoices GROUP BY status")
    counts = {table: visit.value(f"SELECT count(*) FROM {table}") for table in ("customers", "invoices", "staff")}
    rows = sorted(sums, key=lambda row: INVOICE_STATUS.index(row["status"]))
    return visit.page("admin_overview.html", sums=rows, counts=counts)


@ROUTES.get("/audit")
def show_audit(visit: Visit) -> Reply:
    """What was changed, the latest first."""
    return visit.page("admin_audit.html", pager=visit.pager(visit.rows("SELECT * FROM audit ORDER BY id DESC")))


def _context(visit: Visit) -> dict[str, Any]:
    return {"main_pages": _PAGES}


SITE = Site(
    name="admin",
    title="Back office",
    schema=SCHEMA,
    fill=fill_admin,
    routes=Routes([*ROUTES, *CUSTOMER_ROUTES, *INVOICE_ROUTES, *STAFF_ROUTES]),
    context=_context,
    # Every change is logged, also one that was undone later; what counts is the data.
    volatile=frozenset({"audit"}),
)
