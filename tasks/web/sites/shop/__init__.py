"""The shop, http://shop.test/: find products, fill a cart, order, and manage orders, wishes and addresses."""

from __future__ import annotations

from agentgym.tasks.web.sites.shop import account, browse, cart
from agentgym.tasks.web.sites.shop.fill import fill
from agentgym.tasks.web.sites.site import Routes, Site
from agentgym.tasks.web.sites.visit import Visit


def _context(visit: Visit) -> dict[str, object]:
    return {
        "customer": visit.row("SELECT * FROM customer"),
        "cart_count": visit.value("SELECT coalesce(sum(quantity), 0) FROM cart_line"),
        "categories": visit.rows("SELECT * FROM category ORDER BY id"),
    }


SITE = Site(
    name="shop",
    title="Fernwood Store",
    fill=fill,
    routes=Routes([*browse.routes, *cart.routes, *account.routes]),
    context=_context,
    volatile=frozenset({"delivery"}),
)
