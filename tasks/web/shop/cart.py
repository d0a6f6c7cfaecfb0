"""Shop: families that fill and correct the cart, and order."""

from __future__ import annotations

import sqlite3
from typing import Any

from agentgym.tasks.web.checks import check, exists
from agentgym.tasks.web.family import IMPOSSIBLE, WebDraft, WebScene, family
from agentgym.tasks.web.plan import answer, button, fill, link, number
from agentgym.tasks.web.shop.steps import (
    EMPTY_CART,
    PAYMENT_WORDS,
    SHIPPING_WORDS,
    Item,
    add_to_cart,
    check_out,
    choose_options,
    draw_item,
    open_product,
    order_changes,
    products,
)
from agentgym.tasks.web.sites.shop.browse import PRODUCTS

_MESSAGES = (
    "Happy birthday, dear!",
    "Thank you for everything",
    "Congratulations on the new home",
    "Für dich – alles Gute!",
    "With love from all of us",
    "Get well soon",
)


def _in_cart(item: Item) -> dict[str, str]:
    return check("in the cart or ordered", _HAS, item.variant["id"], item.variant["id"])


_HAS = (
    "SELECT count(*) FROM cart_line WHERE variant_id = ? UNION ALL SELECT count(*) FROM order_line "
    "WHERE variant_id = ? AND order_id = (SELECT max(id) FROM orders WHERE placed_at = (SELECT now FROM clock)) "
    "ORDER BY 1 DESC LIMIT 1"
)
_ORDERED = "orders WHERE placed_at = (SELECT now FROM clock)"


@family(
    "shop.add",
    2,
    "Put {quantity} × {name} {options} into my cart.",
    "Add the {name} {options} to the cart. I need {quantity} of them.",
    "I'd like to have {quantity} × {name} {options} in my cart, please.",
    options=EMPTY_CART,
)
def add(scene: WebScene) -> WebDraft:
    """Put a variant into the cart."""
    item = draw_item(scene, scene.rng.randint(1, 4))
    return WebDraft(
        words={"name": item.product["name"], "options": item.words, "quantity": item.quantity},
        plan=add_to_cart(item),
        effect=[("INSERT INTO cart_line VALUES (?, ?)", [item.variant["id"], item.quantity])],
        checks=[
            exists("in the cart", "cart_line WHERE variant_id = ?", item.variant["id"]),
            exists("quantity", "cart_line WHERE variant_id = ? AND quantity = ?", item.variant["id"], item.quantity),
        ],
    )


@family(
    "shop.mend_cart",
    3,
    "Take the {gone} out of my cart, and change the quantity of the {kept} to {quantity}.",
    "My cart is not right: remove the {gone}, and I want {quantity} of the {kept}. Leave the rest.",
    "Please fix my cart: I don't want the {gone} any more, and I want {quantity} of the {kept}.",
)
def mend_cart(scene: WebScene) -> WebDraft:
    """Remove one line of the cart and change another."""
    lines = scene.rows(
        "SELECT cart_line.*, variant.*, name FROM cart_line JOIN variant ON variant.id = variant_id "
        "JOIN product ON product.id = product_id ORDER BY variant_id"
    )
    scene.need(len(lines) >= 2 and len({line["name"] for line in lines}) == len(lines))
    gone, line = scene.rng.sample(lines, 2)
    quantity = scene.choice([count for count in range(1, min(line["stock"], 6) + 1) if count != line["quantity"]])
    label = Item(line, line).label
    plan = [link(_cart_link(scene)), button(f"Remove {Item(gone, gone).label}")]
    plan += [number(f"Quantity of {label}", quantity), button(f"Update {label}")]
    return WebDraft(
        words={"gone": gone["name"], "kept": line["name"], "quantity": quantity},
        plan=plan,
        effect=[
            ("DELETE FROM cart_line WHERE variant_id = ?", [gone["variant_id"]]),
            ("UPDATE cart_line SET quantity = ? WHERE variant_id = ?", [quantity, line["variant_id"]]),
        ],
        checks=[
            check("removed", "SELECT count(*) = 0 FROM cart_line WHERE variant_id = ?", gone["variant_id"]),
            exists("changed", "cart_line WHERE variant_id = ? AND quantity = ?", line["variant_id"], quantity),
        ],
    )


def _cart_link(scene: WebScene) -> str:
    return f"Cart ({scene.value('SELECT coalesce(sum(quantity), 0) FROM cart_line')})"


@family(
    "shop.order",
    3,
    "Order {quantity} × {name} {options}. Send it to the address “{address}” by {shipping} and pay by {payment}.",
    "Buy {quantity} × {name} {options} for me. It goes to my address “{address}” by {shipping}, and I pay by "
    "{payment}.",
    "I'd like to buy {quantity} × {name} {options}. Use {shipping} to my address “{address}”, and pay by {payment}.",
    options=EMPTY_CART,
)
def order(scene: WebScene) -> WebDraft:
    """Order one product."""
    item = draw_item(scene, scene.rng.randint(1, 3))
    words, how = _terms(scene)
    return WebDraft(
        words={"quantity": item.quantity, "name": item.product["name"], "options": item.words, **words},
        plan=[*add_to_cart(item), *check_out(*how)],
        effect=order_changes([item], *how),
        checks=[_in_cart(item), exists("ordered", _ORDERED)],
    )


def _terms(scene: WebScene) -> tuple[dict[str, str], tuple[sqlite3.Row, str, str]]:
    address = scene.pick("SELECT * FROM address ORDER BY id")
    shipping, payment = scene.choice(tuple(SHIPPING_WORDS)), scene.choice(tuple(PAYMENT_WORDS))
    words = {"address": address["label"], "shipping": SHIPPING_WORDS[shipping], "payment": PAYMENT_WORDS[payment]}
    return words, (address, shipping, payment)


@family(
    "shop.gift",
    4,
    "Order the {name} {options} as a present: use the coupon {code}, send it to “{address}” by {shipping}, pay by "
    "{payment}, and add the gift message “{message}”.",
    "I want to give away one {name} {options}. Order it with coupon {code} to my address “{address}”, {shipping}, "
    "payment by {payment}. The gift message is: “{message}”.",
    "I need a present: the {name} {options}. Use the coupon {code} and {shipping} to the address "
    "“{address}”, pay by {payment}, and have the gift message say “{message}”.",
    options=EMPTY_CART,
)
def gift(scene: WebScene) -> WebDraft:
    """Order one product with a coupon and a gift message."""
    item = draw_item(scene)
    coupon = scene.pick(
        "SELECT * FROM coupon WHERE minimum <= ? AND expires_on >= ? ORDER BY code", item.product["price"], scene.today
    )
    words, how = _terms(scene)
    message = scene.choice(_MESSAGES)
    plan = [*add_to_cart(item), fill("Coupon code", coupon["code"]), button("Apply code"), *check_out(*how, message)]
    return WebDraft(
        words={
            "name": item.product["name"],
            "options": item.words,
            "code": coupon["code"],
            "message": message,
            **words,
        },
        plan=plan,
        effect=order_changes([item], *how, message, coupon),
        checks=[
            _in_cart(item),
            exists("ordered", _ORDERED),
            exists("coupon used", f"{_ORDERED} AND coupon = ?", coupon["code"]),
        ],
    )


@family(
    "shop.either",
    4,
    "If the {name} is in stock {options}, put one into my cart; if not, put the {other} on my wish list instead.",
    "I'd like one {name} {options} in my cart. Should exactly that be sold out, add the {other} to my wish list and "
    "leave the cart alone.",
    "Please check whether the {name} is in stock {options}. If it is, add one to my cart. If it is not, add "
    "the {other} to my wish list and nothing to the cart.",
    options=EMPTY_CART,
)
def either(scene: WebScene) -> WebDraft:
    """Do one of two things, depending on the stock of one variant."""
    in_stock = "stock = 0" if scene.rng.random() < 0.5 else "stock > 0"
    item = draw_item(
        scene, 0, f"{in_stock} AND product_id IN (SELECT product_id FROM variant GROUP BY 1 HAVING sum(stock) > 0)"
    )
    item = Item(item.product, item.variant)
    other = scene.choice(products(scene, "id NOT IN (SELECT product_id FROM wishlist) AND id <> ?", item.product["id"]))
    words = {"name": item.product["name"], "options": item.words, "other": other["name"]}
    looked = open_product(item.product["name"])
    if item.variant["stock"]:
        return WebDraft(
            words=words,
            plan=[*looked, *choose_options(item)],
            effect=[("INSERT INTO cart_line VALUES (?, 1)", [item.variant["id"]])],
            checks=[exists("in the cart", "cart_line WHERE variant_id = ?", item.variant["id"])],
        )
    return WebDraft(
        words=words,
        plan=[*looked, *open_product(other["name"]), button("Add to wish list")],
        effect=[("INSERT INTO wishlist VALUES (?, (SELECT now FROM clock))", [other["id"]])],
        checks=[exists("wished", "wishlist WHERE product_id = ?", other["id"])],
    )


@family(
    "shop.sold_out",
    4,
    "Put the {name} {options} into my cart. If it cannot be had, change nothing and answer “impossible”.",
    "Add one {name} {options} to the cart; if that is not possible, leave everything as it is and answer “impossible”.",
    "I want one {name} {options} in my cart. If the shop cannot supply it, change nothing and answer “impossible”.",
    options=EMPTY_CART,
)
def sold_out(scene: WebScene) -> WebDraft:
    """Find that the requested product is sold out."""
    item = draw_item(
        scene, 0, "stock = 0 AND product_id IN (SELECT product_id FROM variant GROUP BY 1 HAVING sum(stock) > 0)"
    )
    words: dict[str, Any] = {"name": item.product["name"], "options": item.words}
    return WebDraft(words=words, plan=[*open_product(item.product["name"]), answer(IMPOSSIBLE)], answer=IMPOSSIBLE)


@family(
    "shop.order_two",
    5,
    "Order two things in one order: {first} × the cheapest product of {brand} in {category} ({options}), and one "
    "{other} "
    "({other_options}). Send it to “{address}” by {shipping}, pay by {payment}.",
    "I need, in a single order to my address “{address}” with {shipping} and payment by {payment}: the {other} "
    "({other_options}), and {first} of whatever is the least expensive {brand} product in {category} ({options}).",
    "Please place a single order for {first} × the {brand} product with the lowest price in {category} "
    "({options}) and one {other} ({other_options}). It goes to “{address}” by {shipping}, and I pay by "
    "{payment}.",
    options=EMPTY_CART,
)
def order_two(scene: WebScene) -> WebDraft:
    """Order two products; one is only described."""
    groups = scene.rows("SELECT category_id, brand FROM product GROUP BY 1, 2 HAVING count(*) >= 3 ORDER BY 1, 2")
    category_id, brand = scene.choice(groups)
    group = f"SELECT id FROM ({PRODUCTS}) WHERE category_id = ? AND brand = ? ORDER BY price LIMIT 1"
    item = draw_item(scene, scene.rng.randint(1, 3), f"product_id = ({group})", category_id, brand)
    price = item.product["price"]
    scene.only("SELECT 1 FROM product WHERE category_id = ? AND brand = ? AND price <= ?", category_id, brand, price)
    other = draw_item(scene, 1, "product_id <> ?", item.product["id"])
    terms, how = _terms(scene)
    words = {"first": item.quantity, "brand": brand, "category": item.product["category"], "options": item.words}
    words |= {"other": other.product["name"], "other_options": other.words, **terms}
    return WebDraft(
        words=words,
        plan=[*add_to_cart(item), *add_to_cart(other), *check_out(*how)],
        effect=order_changes([item, other], *how),
        checks=[_in_cart(item), _in_cart(other), exists("ordered", _ORDERED)],
    )


@family(
    "shop.to_new_address",
    4,
    "Order one {name} {options} to a new address: label “{label}”, {person}, {street}, {postcode} {city}. Add it to "
    "the "
    "address book first. Use {shipping} and pay by {payment}.",
    "My friend {person} should get one {name} {options}. Save the address as “{label}” ({street}, {postcode} {city}), "
    "then order to it, with {shipping} and payment by {payment}.",
    "Please save a new address called “{label}” for {person}: {street}, {postcode} {city}. Then order one "
    "{name} {options} to it, by {shipping}, and pay by {payment}.",
    options=EMPTY_CART,
)
def to_new_address(scene: WebScene) -> WebDraft:
    """Add an address and place an order to be sent there."""
    item = draw_item(scene)
    terms, (_, shipping, payment) = _terms(scene)
    author = scene.pick("SELECT DISTINCT author FROM review ORDER BY author")["author"]
    city = scene.pick("SELECT city FROM address ORDER BY id")["city"]
    street = f"{scene.rng.randint(2, 99)} {scene.choice(('Station', 'Church', 'Mill', 'Garden'))} Road"
    new = {"label": author.split()[0], "name": author, "street": street, "city": city}
    new |= {"postcode": str(scene.rng.randrange(10000, 99999))}
    scene.need(not scene.rows("SELECT 1 FROM address WHERE label = ?", new["label"]))
    plan = [link("Account"), link("Addresses"), link("Add an address"), fill("Label", new["label"])]
    plan += [fill("Full name", author), fill("Street and number", street), fill("Postcode", new["postcode"])]
    plan += [fill("City", city), button("Save address"), *add_to_cart(item)]
    added = (
        "INSERT INTO address (label, name, street, city, postcode, is_default) VALUES (?, ?, ?, ?, ?, 0)",
        [new[key] for key in ("label", "name", "street", "city", "postcode")],
    )
    plan += check_out(new, shipping, payment)  # type: ignore[arg-type]
    return WebDraft(
        words={**new, **terms, "person": author, "name": item.product["name"], "options": item.words},
        plan=plan,
        effect=[added, *order_changes([item], new, shipping, payment)],  # type: ignore[arg-type]
        checks=[exists("address", "address WHERE label = ?", new["label"]), exists("ordered", _ORDERED)],
    )
