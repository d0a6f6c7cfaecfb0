"""Shop: families about placed orders, reviews, and the address book."""

from __future__ import annotations

from agentgym.base.choices import count_of
from agentgym.tasks.web.checks import check, exists
from agentgym.tasks.web.family import WebDraft, WebScene, family
from agentgym.tasks.web.plan import accept, button, choose, fill, link, number, select
from agentgym.tasks.web.shop.steps import Item, open_product, products
from agentgym.tasks.web.sites.shop.fill import LISTED

_REVIEWS = (
    ("Just right", "I use it every day and it still looks new."),
    ("Not for me", "It's fine, but I had hoped for something lighter."),
    ("Schöne Qualität", "Very well made – worth the money."),
    ("Returned it", "The seam came apart after a week; a pity."),
    ("My third one", "Bought two more for my parents."),
)


@family(
    "shop.default_address",
    1,
    "Make “{label}” my default address.",
    "Change my default address in the shop to the one called “{label}”.",
    "From now on, “{label}” should be my default address.",
)
def default_address(scene: WebScene) -> WebDraft:
    """Make another address the default."""
    address = scene.pick("SELECT * FROM address WHERE NOT is_default ORDER BY id")
    return WebDraft(
        words={"label": address["label"]},
        plan=[link("Account"), link("Addresses"), button(f"Make {address['label']} the default")],
        effect=[("UPDATE address SET is_default = (id = ?)", [address["id"]])],
        checks=[exists("default", "address WHERE is_default AND id = ?", address["id"])],
    )


@family(
    "shop.move",
    2,
    "I have moved: change the street of my address “{label}” to {street} and its postcode to {postcode}.",
    "Please correct the address “{label}”: street {street}, postcode {postcode}. The rest stays as it is.",
    "My address “{label}” has changed. The street is now {street} and the postcode {postcode}; nothing else "
    "is different.",
)
def move(scene: WebScene) -> WebDraft:
    """Edit an address."""
    address = scene.pick("SELECT * FROM address ORDER BY id")
    street = f"{scene.rng.randint(2, 140)} {scene.choice(('Lantern', 'Quarry', 'Swan', 'Chapel'))} Row"
    postcode = str(scene.rng.randrange(10000, 99999))
    plan = [link("Account"), link("Addresses"), link(f"Edit {address['label']}")]
    plan += [fill("Street and number", street), fill("Postcode", postcode), button("Save address")]
    return WebDraft(
        words={"label": address["label"], "street": street, "postcode": postcode},
        plan=plan,
        effect=[("UPDATE address SET street = ?, postcode = ? WHERE id = ?", [street, postcode, address["id"]])],
        checks=[
            exists("street", "address WHERE id = ? AND street = ?", address["id"], street),
            exists("postcode", "address WHERE id = ? AND postcode = ?", address["id"], postcode),
        ],
    )


@family(
    "shop.review",
    2,
    "Review the {name}: {stars} out of 5 stars, title “{title}”, text “{body}”",
    "Write a review of “{name}” with the title “{title}” and {stars} out of 5 stars. It should say: “{body}”",
    "I'd like to review the {name}: {given} out of 5, under the title “{title}”. The text is: “{body}”",
)
def review(scene: WebScene) -> WebDraft:
    """Write a review."""
    product = scene.choice(products(scene))
    title, body = scene.choice(_REVIEWS)
    stars = scene.rng.randint(1, 5)
    plan = [*open_product(product["name"]), link(f"Reviews ({product['reviews']})"), link("Write a review")]
    plan += [choose(count_of(stars, "star")), fill("Title", title), fill("Your review", body)]
    return WebDraft(
        words={"name": product["name"], "stars": stars, "given": count_of(stars, "star"), "title": title, "body": body},
        plan=[*plan, button("Submit review")],
        effect=[
            (
                "INSERT INTO review (product_id, author, stars, title, body, written_at) "
                "VALUES (?, (SELECT name FROM customer), ?, ?, ?, (SELECT now FROM clock))",
                [product["id"], stars, title, body],
            )
        ],
        checks=[
            exists("reviewed", "review WHERE product_id = ? AND author = (SELECT name FROM customer)", product["id"])
        ],
    )


@family(
    "shop.return",
    3,
    "I want to send back {quantity} × {name} from order {order}. The reason is “{reason}”.",
    "Request a return for order {order}: {quantity} of the {name}, reason “{reason}”, no comment.",
    "Please send {quantity} of the {name} in order {order} back: request a return with the reason “{reason}” "
    "and no comment.",
)
def send_back(scene: WebScene) -> WebDraft:
    """Ask to return an article of a given order."""
    line = scene.pick(
        "SELECT order_line.*, name, size, colour FROM order_line JOIN orders ON orders.id = order_id "
        "JOIN variant ON variant.id = variant_id JOIN product ON product.id = product_id "
        "WHERE status = 'Delivered' ORDER BY order_id, variant_id"
    )
    scene.only(
        "SELECT 1 FROM order_line JOIN variant ON variant.id = variant_id JOIN product ON product.id = product_id "
        "WHERE order_id = ? AND name = ?",
        *(line["order_id"], line["name"]),
    )
    quantity, reason = scene.rng.randint(1, line["quantity"]), scene.choice(LISTED["return_reasons"])
    newer = scene.value(
        "SELECT count(*) FROM orders AS o, orders AS this WHERE this.id = ? AND (o.placed_at, o.id) > "
        "(this.placed_at, this.id)",
        line["order_id"],
    )
    plan = [link("Orders"), *[link("Next page")] * (newer // 10), link(f"Order {line['order_id']}")]
    plan += [link(f"Return {Item(line, line).label}"), number("Quantity", quantity), select("Reason", reason)]
    values = [line["order_id"], line["variant_id"], quantity, reason]
    where = "return_request WHERE order_id = ? AND variant_id = ?"
    return WebDraft(
        words={"quantity": quantity, "name": line["name"], "order": line["order_id"], "reason": reason},
        plan=[*plan, button("Request return")],
        effect=[("INSERT INTO return_request VALUES (?, ?, ?, ?, '', (SELECT now FROM clock))", values)],
        checks=[exists("requested", where, line["order_id"], line["variant_id"])],
    )


@family(
    "shop.cancel",
    4,
    "Cancel the order with the {name} in it that has not been sent yet.",
    "One of my orders that are still being processed has the {name} in it. Please cancel that order.",
    "I no longer want the order with the {name}, which has not been sent yet. Please cancel it.",
)
def cancel(scene: WebScene) -> WebDraft:
    """Cancel the one order that contains a product and is being processed."""
    lines = scene.rows(
        "SELECT order_id, name FROM order_line JOIN orders ON orders.id = order_id JOIN variant ON variant.id = "
        "variant_id JOIN product ON product.id = product_id WHERE status = 'Processing' ORDER BY 1, 2"
    )
    scene.need(len({line["order_id"] for line in lines}) >= 2)
    order, name = scene.choice(lines)
    scene.need([line["order_id"] for line in lines if line["name"] == name] == [order])
    effect = [
        (
            "UPDATE variant SET stock = stock + (SELECT quantity FROM order_line WHERE order_id = ? AND variant_id "
            "= id) "
            "WHERE id IN (SELECT variant_id FROM order_line WHERE order_id = ?)",
            [order, order],
        ),
        ("UPDATE orders SET status = 'Cancelled' WHERE id = ?", [order]),
    ]
    plan = [link("Orders"), select("Status", "Processing"), button("Show"), link(f"Order {order}")]
    return WebDraft(
        words={"name": name},
        plan=[*plan, accept(), button("Cancel order")],
        effect=effect,
        checks=[check("cancelled", "SELECT status = 'Cancelled' FROM orders WHERE id = ?", order)],
    )
