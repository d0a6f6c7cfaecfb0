"""The shop's account pages: orders with returns and cancellation, wish list, addresses, settings."""

from __future__ import annotations

import sqlite3

from agentgym.tasks.web.sites.forms import SiteForm
from agentgym.tasks.web.sites.shop.browse import PRODUCTS
from agentgym.tasks.web.sites.shop.cart import QUANTITY_MOST
from agentgym.tasks.web.sites.shop.fill import LISTED, PAYMENT, SHIPPING, STATUSES
from agentgym.tasks.web.sites.site import Routes, SiteReply
from agentgym.tasks.web.sites.visit import PageProblem, Visit

routes = Routes()

ORDER_LINES = """
SELECT order_line.*, size, colour, name, product.id AS product_id, order_line.quantity * order_line.price AS amount,
    return_request.quantity AS returned
FROM order_line JOIN variant ON variant.id = variant_id JOIN product ON product.id = product_id
    LEFT JOIN return_request USING (order_id, variant_id)
WHERE order_id = ? ORDER BY variant_id
"""


@routes.get("/account")
def account(visit: Visit) -> SiteReply:
    """Show the account."""
    return visit.page("shop/account.html")


@routes.post("/account/settings")
def save_settings(visit: Visit) -> SiteReply:
    """Save e-mail address and newsletter."""
    email, newsletter = visit.form.email("email"), visit.form.flag("newsletter")
    if not visit.form.ok:
        return visit.page("shop/account.html", 422)
    visit.run("UPDATE customer SET email = ?, newsletter = ?", email, int(newsletter))
    return visit.redirect("/account", "Your settings were saved.")


@routes.get("/account/orders")
def orders(visit: Visit) -> SiteReply:
    """List the orders, newest first."""
    status = visit.query.get("status", "")
    rows = visit.rows("SELECT * FROM orders WHERE ? IN ('', status) ORDER BY placed_at DESC, id DESC", status)
    return visit.page("shop/orders.html", pager=visit.pager(rows), statuses=STATUSES)


@routes.get("/account/orders/{number:int}")
def order(visit: Visit, number: int) -> SiteReply:
    """Show one order."""
    order = _order(visit, number)
    lines = visit.rows(ORDER_LINES, number)
    return visit.page(
        "shop/order.html",
        order=order,
        lines=lines,
        shipping=SHIPPING[order["shipping"]],
        payment=PAYMENT[order["payment"]],
    )


def _order(visit: Visit, number: int) -> sqlite3.Row:
    return visit.find("order", "SELECT * FROM orders WHERE id = ?", number)


@routes.post("/account/orders/{number:int}/cancel")
def cancel(visit: Visit, number: int) -> SiteReply:
    """Cancel an order that has not been sent yet; its articles go back into stock."""
    if _order(visit, number)["status"] != "Processing":
        raise PageProblem(409, "Only orders that are being processed can be cancelled.")
    for line in visit.rows("SELECT * FROM order_line WHERE order_id = ?", number):
        visit.run("UPDATE variant SET stock = stock + ? WHERE id = ?", line["quantity"], line["variant_id"])
    visit.run("UPDATE orders SET status = 'Cancelled' WHERE id = ?", number)
    return visit.redirect(f"/account/orders/{number}", f"Order {number} was cancelled.")


@routes.post("/account/orders/{number:int}/again")
def buy_again(visit: Visit, number: int) -> SiteReply:
    """Put an order's articles into the cart again, as far as they are in stock."""
    _order(visit, number)
    sold_out = 0
    for line in visit.rows("SELECT * FROM order_line WHERE order_id = ? ORDER BY variant_id", number):
        there = visit.value("SELECT quantity FROM cart_line WHERE variant_id = ?", line["variant_id"]) or 0
        stock = visit.value("SELECT stock FROM variant WHERE id = ?", line["variant_id"])
        quantity = min(there + line["quantity"], stock, QUANTITY_MOST)
        if quantity > 0:
            visit.run("INSERT OR REPLACE INTO cart_line VALUES (?, ?)", line["variant_id"], quantity)
        else:
            sold_out += 1
    note = f" {sold_out} of them cannot be had at the moment." if sold_out else ""
    return visit.redirect("/cart", f"The articles of order {number} are in your cart.{note}")


@routes.get("/account/orders/{number:int}/return/{variant:int}")
def return_form(visit: Visit, number: int, variant: int) -> SiteReply:
    """Ask which article is returned and why."""
    return _return_page(visit, _returnable(visit, number, variant))


def _returnable(visit: Visit, number: int, variant: int) -> sqlite3.Row:
    if _order(visit, number)["status"] != "Delivered":
        raise PageProblem(409, "Only articles that were delivered can be sent back.")
    line = visit.find("article in this order", f"SELECT * FROM ({ORDER_LINES}) WHERE variant_id = ?", number, variant)
    if line["returned"]:
        raise PageProblem(409, "You have already asked to send this article back.")
    return line


def _return_page(visit: Visit, line: sqlite3.Row, status: int = 200) -> SiteReply:
    return visit.page("shop/return.html", status, line=line, reasons=LISTED["return_reasons"])


@routes.post("/account/orders/{number:int}/return/{variant:int}")
def request_return(visit: Visit, number: int, variant: int) -> SiteReply:
    """Record that an article is returned."""
    line = _returnable(visit, number, variant)
    quantity = visit.form.integer("quantity", 1, line["quantity"])
    reason = visit.form.choice("reason", LISTED["return_reasons"])
    comment = visit.form.text("comment", required=False, most=500)
    if not visit.form.ok:
        return _return_page(visit, line, 422)
    visit.run(
        "INSERT INTO return_request VALUES (?, ?, ?, ?, ?, ?)", number, variant, quantity, reason, comment, visit.stamp
    )
    return visit.redirect(f"/account/orders/{number}", "We have noted your return.")


@routes.get("/account/wishlist")
def wishlist(visit: Visit) -> SiteReply:
    """Show the wish list."""
    rows = visit.rows(
        f"SELECT * FROM ({PRODUCTS}) AS products JOIN wishlist ON product_id = products.id ORDER BY added_at DESC, id"
    )
    return visit.page("shop/wishlist.html", products=rows)


@routes.get("/account/addresses")
def addresses(visit: Visit) -> SiteReply:
    """List the addresses."""
    return visit.page("shop/addresses.html", addresses=visit.rows("SELECT * FROM address ORDER BY id"))


@routes.get("/account/addresses/new")
def new_address(visit: Visit) -> SiteReply:
    """Show an empty address form."""
    return visit.page("shop/address.html", address=None)


@routes.post("/account/addresses/new")
def add_address(visit: Visit) -> SiteReply:
    """Add an address."""
    values = _read_address(visit, 0)
    if values is None:
        return visit.page("shop/address.html", 422, address=None)
    visit.run(
        "INSERT INTO address (label, name, street, city, postcode, is_default) VALUES (?, ?, ?, ?, ?, 0)", *values
    )
    return visit.redirect("/account/addresses", f"The address {values[0]} was added.")


@routes.get("/account/addresses/{number:int}")
def edit_address(visit: Visit, number: int) -> SiteReply:
    """Show an address to edit."""
    address = visit.find("address", "SELECT * FROM address WHERE id = ?", number)
    return visit.page("shop/address.html", address=address, form=SiteForm.filled(dict(address)))


@routes.post("/account/addresses/{number:int}")
def save_address(visit: Visit, number: int) -> SiteReply:
    """Save an address."""
    address = visit.find("address", "SELECT * FROM address WHERE id = ?", number)
    values = _read_address(visit, number)
    if values is None:
        return visit.page("shop/address.html", 422, address=address)
    visit.run(
        "UPDATE address SET label = ?, name = ?, street = ?, city = ?, postcode = ? WHERE id = ?", *values, number
    )
    return visit.redirect("/account/addresses", f"The address {values[0]} was saved.")


def _read_address(visit: Visit, number: int) -> tuple[str, ...] | None:
    form = visit.form
    values = tuple(form.text(name, most=80) for name in ("label", "name", "street", "city", "postcode"))
    postcode = values[-1]
    if postcode and not (postcode.isascii() and postcode.isdecimal() and len(postcode) == 5):
        form.error("postcode", "Please enter five digits.")
    if visit.row("SELECT 1 FROM address WHERE label = ? AND id <> ?", values[0], number):
        form.error("label", "You already have an address with this label.")
    return values if form.ok else None


@routes.post("/account/addresses/{number:int}/default")
def make_default(visit: Visit, number: int) -> SiteReply:
    """Make an address the default."""
    address = visit.find("address", "SELECT * FROM address WHERE id = ?", number)
    visit.run("UPDATE address SET is_default = (id = ?)", number)
    return visit.redirect("/account/addresses", f"{address['label']} is your default address now.")


@routes.post("/account/addresses/{number:int}/delete")
def delete_address(visit: Visit, number: int) -> SiteReply:
    """Delete an address other than the default."""
    address = visit.find("address", "SELECT * FROM address WHERE id = ?", number)
    if address["is_default"]:
        raise PageProblem(409, "The default address cannot be deleted. Make another one the default first.")
    visit.run("DELETE FROM address WHERE id = ?", number)
    return visit.redirect("/account/addresses", f"The address {address['label']} was deleted.")
