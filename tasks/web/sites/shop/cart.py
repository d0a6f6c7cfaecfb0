"""The shop's cart: lines, quantities and a coupon."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from agentgym.tasks.web.sites.shop.browse import show_product
from agentgym.tasks.web.sites.shop.fill import PAYMENT, SHIPPING
from agentgym.tasks.web.sites.site import Routes, SiteReply
from agentgym.tasks.web.sites.visit import Visit

routes = Routes()
QUANTITY_MOST = 10

LINES = """
SELECT variant_id, quantity, size, colour, stock, product.id AS product_id, name, price, quantity * price AS amount
FROM cart_line JOIN variant ON variant.id = variant_id JOIN product ON product.id = product_id ORDER BY variant_id
"""


@dataclass(frozen=True)
class Totals:
    """The price of a cart, in cents."""

    subtotal: int
    discount: int
    coupon: str | None


def options_text(size: str, colour: str) -> str:
    """Return the name of a variant: `Navy, size L`."""
    return f"{colour}, size {size}" if size else colour


def totals(visit: Visit, lines: list[sqlite3.Row]) -> Totals:
    """Add up a cart. A coupon counts only while the cart reaches its minimum."""
    subtotal = sum(line["amount"] for line in lines)
    coupon = visit.row("SELECT coupon.* FROM coupon JOIN cart_coupon USING (code)")
    if coupon is None or subtotal < coupon["minimum"]:
        return Totals(subtotal, 0, None)
    return Totals(subtotal, subtotal * coupon["percent"] // 100, coupon["code"])


@routes.post("/product/{number:int}/add")
def add(visit: Visit, number: int) -> SiteReply:
    """Put a variant of a product into the cart."""
    product = visit.find("product", "SELECT * FROM product WHERE id = ?", number)
    variants = visit.rows("SELECT * FROM variant WHERE product_id = ?", number)
    form = visit.form
    sizes = {row["size"] for row in variants}
    size = "" if sizes == {""} else form.choice("size", sizes)
    colour = form.choice("colour", {row["colour"] for row in variants})
    quantity = form.integer("quantity", 1, QUANTITY_MOST)
    if not form.ok:
        return show_product(visit, number, 422)
    variant = next(row for row in variants if row["size"] == size and row["colour"] == colour)
    there = visit.value("SELECT quantity FROM cart_line WHERE variant_id = ?", variant["id"]) or 0
    problem = _too_many(there + quantity, variant["stock"], options_text(size, colour))
    if problem:
        form.error("quantity", problem)
        return show_product(visit, number, 422)
    visit.run("INSERT OR REPLACE INTO cart_line VALUES (?, ?)", variant["id"], there + quantity)
    return visit.redirect("/cart", f"{product['name']} ({options_text(size, colour)}) was added to your cart.")


def _too_many(quantity: int, stock: int, what: str) -> str | None:
    if stock == 0:
        return f"{what} is out of stock."
    if quantity > stock:
        return f"Only {stock} of {what} in stock."
    if quantity > QUANTITY_MOST:
        return f"At most {QUANTITY_MOST} of each article can be ordered."
    return None


@routes.get("/cart")
def cart(visit: Visit) -> SiteReply:
    """Show the cart."""
    return _cart_page(visit)


def _cart_page(visit: Visit, status: int = 200) -> SiteReply:
    lines = visit.rows(LINES)
    applied = visit.row("SELECT coupon.* FROM coupon JOIN cart_coupon USING (code)")
    return visit.page("shop/cart.html", status, lines=lines, totals=totals(visit, lines), applied=applied)


@routes.post("/cart/{variant:int}/quantity")
def change_quantity(visit: Visit, variant: int) -> SiteReply:
    """Change the quantity of an article in the cart; 0 removes it."""
    line = visit.find("article in your cart", f"SELECT * FROM ({LINES}) WHERE variant_id = ?", variant)
    field = f"quantity-{variant}"
    quantity = visit.form.integer(field, 0, QUANTITY_MOST)
    problem = _too_many(quantity, line["stock"], "this article") if quantity else None
    if problem:
        visit.form.error(field, problem)
    if not visit.form.ok:
        return _cart_page(visit, 422)
    if quantity == 0:
        return remove(visit, variant)
    visit.run("UPDATE cart_line SET quantity = ? WHERE variant_id = ?", quantity, variant)
    return visit.redirect("/cart", "Your cart was updated.")


@routes.post("/cart/{variant:int}/remove")
def remove(visit: Visit, variant: int) -> SiteReply:
    """Remove an article from the cart."""
    line = visit.find("article in your cart", f"SELECT * FROM ({LINES}) WHERE variant_id = ?", variant)
    visit.run("DELETE FROM cart_line WHERE variant_id = ?", variant)
    return visit.redirect("/cart", f"{line['name']} was removed from your cart.")


@routes.post("/cart/coupon")
def apply_coupon(visit: Visit) -> SiteReply:
    """Apply a coupon to the cart, replacing an earlier one."""
    code = visit.form.text("coupon", most=40).upper()
    coupon = visit.row("SELECT * FROM coupon WHERE code = ?", code)
    subtotal = sum(line["amount"] for line in visit.rows(LINES))
    if visit.form.ok and coupon is None:
        visit.form.error("coupon", "We do not know this code.")
    elif coupon is not None and coupon["expires_on"] < visit.stamp[:10]:
        visit.form.error("coupon", "This code has expired.")
    elif coupon is not None and subtotal < coupon["minimum"]:
        visit.form.error("coupon", f"This code needs a subtotal of at least ${coupon['minimum'] // 100}.")
    if not visit.form.ok:
        return _cart_page(visit, 422)
    visit.run("DELETE FROM cart_coupon")
    visit.run("INSERT INTO cart_coupon VALUES (?)", code)
    return visit.redirect("/cart", f"Code {code} was applied.")


@routes.post("/cart/coupon/remove")
def remove_coupon(visit: Visit) -> SiteReply:
    """Remove the coupon from the cart."""
    visit.run("DELETE FROM cart_coupon")
    return visit.redirect("/cart", "The code was removed.")


@routes.get("/checkout")
def delivery_form(visit: Visit) -> SiteReply:
    """Ask for the address and the delivery method."""
    if not visit.rows(LINES):
        return visit.redirect("/cart", "Your cart is empty.")
    return _delivery_page(visit)


def _delivery_page(visit: Visit, status: int = 200) -> SiteReply:
    addresses = visit.rows("SELECT * FROM address ORDER BY is_default DESC, id")
    return visit.page("shop/delivery.html", status, addresses=addresses, shipping=SHIPPING)


@routes.post("/checkout")
def choose_delivery(visit: Visit) -> SiteReply:
    """Save the address and the delivery method."""
    valid_ids = [str(row["id"]) for row in visit.rows("SELECT id FROM address")]
    address = visit.form.choice("address", valid_ids)
    shipping = visit.form.choice("shipping", SHIPPING)
    if not visit.form.ok:
        return _delivery_page(visit, 422)
    visit.run("INSERT OR REPLACE INTO delivery VALUES (1, ?, ?)", int(address), shipping)
    return visit.redirect("/checkout/payment")


@routes.get("/checkout/payment")
def payment_form(visit: Visit) -> SiteReply:
    """Ask for the payment method, and show the order."""
    return _payment_page(visit)


def _payment_page(visit: Visit, status: int = 200) -> SiteReply:
    lines = visit.rows(LINES)
    delivery = visit.row("SELECT * FROM delivery JOIN address ON address.id = address_id")
    if not lines or delivery is None:
        return visit.redirect("/checkout")
    return visit.page(
        "shop/payment.html", status, lines=lines, totals=totals(visit, lines), delivery=delivery,
        shipping=SHIPPING[delivery["shipping"]], payment=PAYMENT,
    )  # fmt: skip


@routes.post("/checkout/payment")
def place_order(visit: Visit) -> SiteReply:
    """Turn the cart into an order."""
    payment = visit.form.choice("payment", PAYMENT)
    message = visit.form.text("gift_message", required=False, most=200)
    lines = visit.rows(LINES)
    delivery = visit.row("SELECT * FROM delivery JOIN address ON address.id = address_id")
    if not visit.form.ok or not lines or delivery is None:
        return _payment_page(visit, 422)
    if any(line["quantity"] > line["stock"] for line in lines):
        return visit.redirect("/cart", "Some of your articles are not in stock any more.")
    cost = SHIPPING[delivery["shipping"]][1]
    paid = totals(visit, lines)
    number = visit.run(
        "INSERT INTO orders (placed_at, status, recipient, street, city, postcode, shipping, payment, gift_message, "
        "coupon, subtotal, discount, shipping_cost, total) VALUES (?, 'Processing', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
        "?, ?)",
        visit.stamp,
        *(delivery[key] for key in ("name", "street", "city", "postcode", "shipping")),
        *(payment, message, paid.coupon, paid.subtotal, paid.discount, cost, paid.subtotal - paid.discount + cost),
    )
    for line in lines:
        visit.run(
            "INSERT INTO order_line VALUES (?, ?, ?, ?)", number, line["variant_id"], line["quantity"], line["price"]
        )
        visit.run("UPDATE variant SET stock = stock - ? WHERE id = ?", line["quantity"], line["variant_id"])
    visit.run("DELETE FROM cart_line")
    visit.run("DELETE FROM cart_coupon")
    visit.run("DELETE FROM delivery")
    return visit.redirect(f"/account/orders/{number}", f"Thank you! Your order number is {number}.")
