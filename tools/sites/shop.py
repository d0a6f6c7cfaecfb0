"""The shop, http://shop.test/: find products, fill a cart, order, and look after orders, wishes and addresses."""

from __future__ import annotations

from agentgym.tools.sites import shop_account, shop_browse, shop_cart, shop_checkout
from agentgym.tools.sites.shop_fill import SCHEMA, fill
from agentgym.tools.sites.site import Routes, Site
from agentgym.tools.sites.visit import Visit


def _context(visit: Visit) -> dict[str, object]:
    return {
        "customer": visit.row("SELECT * FROM customer"),
        "cart_count": visit.value("SELECT coalesce(sum(quantity), 0) FROM cart_line"),
        "categories": visit.rows("SELECT * FROM category ORDER BY id"),
    }


SITE = Site(
    name="shop",
    title="Fernwood Store",
    schema=SCHEMA,
    fill=fill,
    routes=Routes([*shop_browse.routes, *shop_cart.routes, *shop_checkout.routes, *shop_account.routes]),
    context=_context,
    volatile=frozenset({"delivery"}),
)
