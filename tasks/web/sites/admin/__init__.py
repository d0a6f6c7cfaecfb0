"""The admin site: a back office with customers, invoices, staff and permissions, and an audit log."""

from __future__ import annotations

from typing import Any

from agentgym.tasks.web.sites.admin.customers import ROUTES as CUSTOMER_ROUTES
from agentgym.tasks.web.sites.admin.fill import INVOICE_STATUS, fill_admin
from agentgym.tasks.web.sites.admin.invoices import ROUTES as INVOICE_ROUTES
from agentgym.tasks.web.sites.admin.staff import ROUTES as STAFF_ROUTES
from agentgym.tasks.web.sites.site import Routes, Site, SiteReply
from agentgym.tasks.web.sites.visit import Visit

ROUTES = Routes()
_PAGES = {
    "/customers": "Customers",
    "/invoices": "Invoices",
    "/staff": "Staff",
    "/roles": "Roles",
    "/audit": "Audit log",
}


@ROUTES.get("/")
def overview(visit: Visit) -> SiteReply:
    """Show the start page of the back office: a few totals."""
    sums = visit.rows("SELECT status, count(*) AS count, sum(amount) AS amount FROM invoices GROUP BY status")
    counts = {table: visit.value(f"SELECT count(*) FROM {table}") for table in ("customers", "invoices", "staff")}
    rows = sorted(sums, key=lambda row: INVOICE_STATUS.index(row["status"]))
    return visit.page("admin/overview.html", sums=rows, counts=counts)


@ROUTES.get("/audit")
def show_audit(visit: Visit) -> SiteReply:
    """List the changes made, the latest first."""
    return visit.page("admin/audit.html", pager=visit.pager(visit.rows("SELECT * FROM audit ORDER BY id DESC")))


def _context(visit: Visit) -> dict[str, Any]:
    return {"main_pages": _PAGES}


SITE = Site(
    name="admin",
    title="Back office",
    fill=fill_admin,
    routes=Routes([*ROUTES, *CUSTOMER_ROUTES, *INVOICE_ROUTES, *STAFF_ROUTES]),
    context=_context,
    # The log also keeps changes that were undone later; only the data counts as state.
    volatile=frozenset({"audit"}),
)
