"""The shop's checkout: address and delivery (step 1), payment and review (step 2), the order."""

from __future__ import annotations

from agentgym.tasks.web.sites.reply import SiteReply
from agentgym.tasks.web.sites.shop.cart import LINES, totals
from agentgym.tasks.web.sites.shop.fill import PAYMENT, SHIPPING
from agentgym.tasks.web.sites.site import Routes
from agentgym.tasks.web.sites.visit import Visit

routes = Routes()


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
