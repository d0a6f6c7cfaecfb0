"""Helpers of the shop's families: steps for its pages, and the SQL of an order."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from agentgym.tasks.web.family import Change, Step, WebScene
from agentgym.tasks.web.plan import button, choose, fill, link, number, select
from agentgym.tasks.web.sites.pages import money
from agentgym.tasks.web.sites.shop.browse import PRODUCTS
from agentgym.tasks.web.sites.shop.fill import PAYMENT, SHIPPING

EMPTY_CART = {"cart": "empty"}
"""Options of a shop whose customer starts with an empty cart."""
SHIPPING_WORDS = {"standard": "standard shipping", "express": "express shipping", "pickup": "pick-up"}
PAYMENT_WORDS = {"card": "credit card", "invoice": "invoice", "giftcard": "gift card balance"}


@dataclass(frozen=True)
class Item:
    """A variant of a product, and its quantity."""

    product: sqlite3.Row
    variant: sqlite3.Row
    quantity: int = 1

    @property
    def words(self) -> str:
        """The options in words: `in Navy, size L`."""
        size = f", size {self.variant['size']}" if self.variant["size"] else ""
        return f"in {self.variant['colour']}{size}"

    @property
    def label(self) -> str:
        """The name that the cart shows for it."""
        size = f", size {self.variant['size']}" if self.variant["size"] else ""
        return f"{self.product['name']} ({self.variant['colour']}{size})"


def products(scene: WebScene, condition: str = "1", *params: object) -> list[sqlite3.Row]:
    """Return products with their rating, number of reviews, stock and category."""
    return scene.rows(f"SELECT * FROM ({PRODUCTS}) WHERE {condition} ORDER BY id", *params)


def draw_item(scene: WebScene, quantity: int = 1, condition: str = "1", *params: object) -> Item:
    """Draw a variant that is in stock."""
    variant = scene.pick(f"SELECT * FROM variant WHERE stock >= ? AND ({condition}) ORDER BY id", quantity, *params)
    product = scene.only(f"SELECT * FROM ({PRODUCTS}) WHERE id = ?", variant["product_id"])
    return Item(product, variant, quantity)


def open_product(name: str) -> list[Step]:
    """Find a product by its name and open its page."""
    return [fill("Search products", name, "searchbox"), button("Search"), link(name)]


def choose_options(item: Item) -> list[Step]:
    """On a product's page, choose a variant and put it into the cart."""
    size = item.variant["size"]
    steps = [select("Size", size)] if size else []
    steps.append(select("Colour", item.variant["colour"]))
    if item.quantity != 1:
        steps.append(number("Quantity", item.quantity))
    return [*steps, button("Add to cart")]


def add_to_cart(item: Item) -> list[Step]:
    """Find a product and put it into the cart."""
    return [*open_product(item.product["name"]), *choose_options(item)]


def check_out(address: sqlite3.Row, shipping: str, payment: str, message: str = "") -> list[Step]:
    """In the cart, order its content."""
    title, cost = SHIPPING[shipping]
    where = "{label}: {name}, {street}, {postcode} {city}".format_map(dict(address))
    steps = [link("Proceed to checkout"), choose(where), choose(f"{title}, {money(cost)}")]
    steps += [button("Continue to payment"), choose(PAYMENT[payment])]
    if message:
        steps.append(fill("Gift message (optional)", message))
    return [*steps, button("Place order")]


def order_changes(
    items: Sequence[Item],
    address: sqlite3.Row,
    shipping: str,
    payment: str,
    message: str = "",
    coupon: sqlite3.Row | None = None,
) -> list[Change]:
    """Return the changes to the database that an order of exactly these items makes."""
    subtotal = sum(item.quantity * item.product["price"] for item in items)
    discount = subtotal * coupon["percent"] // 100 if coupon else 0
    cost = SHIPPING[shipping][1]
    order = (
        "INSERT INTO orders (placed_at, status, recipient, street, city, postcode, shipping, payment, gift_message, "
        "coupon, subtotal, discount, shipping_cost, total) "
        "VALUES ((SELECT now FROM clock), 'Processing', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            *(address[key] for key in ("name", "street", "city", "postcode")),
            *(shipping, payment, message, coupon["code"] if coupon else None),
            *(subtotal, discount, cost, subtotal - discount + cost),
        ],
    )
    changes: list[Change] = [order]
    for item in items:
        line = [item.variant["id"], item.quantity, item.product["price"]]
        changes.append(("INSERT INTO order_line VALUES ((SELECT max(id) FROM orders), ?, ?, ?)", line))
        changes.append(("UPDATE variant SET stock = stock - ? WHERE id = ?", [item.quantity, item.variant["id"]]))
    return changes
