"""The shop's initial content: products with variants and reviews, and a customer with orders and addresses."""

from __future__ import annotations

from functools import cache
from typing import Any

import yaml

from agentgym.tasks.web.sites.pages import folder_of
from agentgym.tasks.web.sites.site import Build

SCHEMA = """
CREATE TABLE customer (name TEXT NOT NULL, email TEXT NOT NULL, newsletter INTEGER NOT NULL);
CREATE TABLE category (id INTEGER PRIMARY KEY, slug TEXT UNIQUE NOT NULL, name TEXT NOT NULL);
CREATE TABLE product (
    id INTEGER PRIMARY KEY, category_id INTEGER NOT NULL REFERENCES category, name TEXT UNIQUE NOT NULL,
    brand TEXT NOT NULL, price INTEGER NOT NULL, material TEXT NOT NULL, weight INTEGER NOT NULL,
    warranty INTEGER NOT NULL, description TEXT NOT NULL, added_on TEXT NOT NULL);
CREATE TABLE variant (
    id INTEGER PRIMARY KEY, product_id INTEGER NOT NULL REFERENCES product, size TEXT NOT NULL, colour TEXT NOT NULL,
    stock INTEGER NOT NULL, UNIQUE (product_id, size, colour));
CREATE TABLE review (
    id INTEGER PRIMARY KEY, product_id INTEGER NOT NULL REFERENCES product, author TEXT NOT NULL,
    stars INTEGER NOT NULL, title TEXT NOT NULL, body TEXT NOT NULL, written_at TEXT NOT NULL,
    UNIQUE (product_id, author));
CREATE TABLE coupon (
    code TEXT PRIMARY KEY, percent INTEGER NOT NULL, minimum INTEGER NOT NULL, expires_on TEXT NOT NULL);
CREATE TABLE cart_line (variant_id INTEGER PRIMARY KEY REFERENCES variant, quantity INTEGER NOT NULL);
CREATE TABLE cart_coupon (code TEXT PRIMARY KEY REFERENCES coupon);
CREATE TABLE address (
    id INTEGER PRIMARY KEY, label TEXT UNIQUE NOT NULL, name TEXT NOT NULL, street TEXT NOT NULL, city TEXT NOT NULL,
    postcode TEXT NOT NULL, is_default INTEGER NOT NULL);
CREATE TABLE delivery (one INTEGER PRIMARY KEY CHECK (one = 1), address_id INTEGER NOT NULL, shipping TEXT NOT NULL);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, placed_at TEXT NOT NULL, status TEXT NOT NULL, recipient TEXT NOT NULL,
    street TEXT NOT NULL, city TEXT NOT NULL, postcode TEXT NOT NULL, shipping TEXT NOT NULL, payment TEXT NOT NULL,
    gift_message TEXT NOT NULL, coupon TEXT, subtotal INTEGER NOT NULL, discount INTEGER NOT NULL,
    shipping_cost INTEGER NOT NULL, total INTEGER NOT NULL);
CREATE TABLE order_line (
    order_id INTEGER NOT NULL REFERENCES orders, variant_id INTEGER NOT NULL REFERENCES variant,
    quantity INTEGER NOT NULL, price INTEGER NOT NULL, PRIMARY KEY (order_id, variant_id));
CREATE TABLE return_request (
    order_id INTEGER NOT NULL, variant_id INTEGER NOT NULL, quantity INTEGER NOT NULL, reason TEXT NOT NULL,
    comment TEXT NOT NULL, requested_at TEXT NOT NULL, PRIMARY KEY (order_id, variant_id));
CREATE TABLE wishlist (product_id INTEGER PRIMARY KEY REFERENCES product, added_at TEXT NOT NULL)
"""
SHIPPING = {
    "standard": ("Standard (3 to 5 days)", 495),
    "express": ("Express (next day)", 1495),
    "pickup": ("Pick-up", 0),
}
"""Delivery methods: their names, and their prices in cents."""
PAYMENT = {"card": "Credit card ending in 4821", "invoice": "Invoice", "giftcard": "Gift card balance"}
STATUSES = ("Processing", "Shipped", "Delivered", "Cancelled")
ADDRESS_LABELS = ("Home", "Office", "Parents", "Summer house")


@cache
def stock_list() -> dict[str, Any]:
    """Return the content of `data/shop.yaml`."""
    return yaml.safe_load((folder_of("shop") / "shop.yaml").read_text(encoding="utf-8"))


def fill(build: Build) -> None:
    """Fill the shop for a seed."""
    listed = stock_list()
    owner = build.words.person()
    build.insert("customer", name=owner.name, email=owner.email, newsletter=build.rng.randrange(2))
    brands = build.rng.sample(build.words.part(listed["brands"]), 6)
    series = build.words.part(listed["series"])
    for category in listed["categories"]:
        category_id = build.insert("category", slug=category["slug"], name=category["name"])
        _fill_category(build, category, category_id, brands, series)
    _fill_reviews(build, listed["reviews"])
    _fill_coupons(build, listed["coupons"])
    _fill_addresses(build, owner.name)
    for number in range(14):
        _fill_order(build, 41000 + number * 7 + build.rng.randrange(7), (14 - number) * 12)
    for (product_id,) in build.db.execute("SELECT id FROM product ORDER BY id").fetchall():
        if build.rng.random() < 0.05:
            build.insert("wishlist", product_id=product_id, added_at=build.before(30, 29))
    if build.options.get("cart") != "empty":
        _fill_cart(build)


def _fill_category(build: Build, category: dict[str, Any], category_id: int, brands: list[str], series: list[str]):
    rng = build.rng
    # Few series and few nouns, so that names resemble each other.
    names = [f"{series_name} {noun}" for series_name in rng.sample(series, 4) for noun in category["nouns"]]
    for name in rng.sample(names, rng.randint(11, 15)):
        low, high = category["price"]
        price = int(low * (high / low) ** rng.random() / 100) * 100 + rng.choice((0, 50, 90, 95, 99))
        material = rng.choice(category["materials"])
        product_id = build.insert(
            "product",
            category_id=category_id,
            name=f"{name} {rng.choice(('Pro', 'II', 'Lite'))}" if rng.random() < 0.15 else name,
            brand=rng.choice(brands[:3] if rng.random() < 0.6 else brands),
            price=price,
            material=material,
            weight=rng.randrange(80, 4000, 10),
            warranty=rng.choice((1, 2, 2, 3, 5, 10)),
            description=f"{category['about']} Made of {material}.",
            added_on=build.before(400, 390)[:10],
        )
        _fill_variants(build, product_id, category["sizes"])


def _fill_variants(build: Build, product_id: int, sizes: list[str]) -> None:
    rng = build.rng
    colours = rng.sample(stock_list()["colours"], rng.choice((1, 2, 2, 3)))
    start = rng.randrange(max(1, len(sizes) - 2))
    sold_out = rng.random() < 0.08
    for size in sizes[start : start + 4] or [""]:
        for colour in colours:
            stock = 0 if sold_out or rng.random() < 0.15 else rng.randint(1, 30)
            build.insert("variant", product_id=product_id, size=size, colour=colour, stock=stock)


def _fill_reviews(build: Build, texts: list[list[Any]]) -> None:
    authors = [person.name for person in build.words.people(40)]
    for (product_id,) in build.db.execute("SELECT id FROM product ORDER BY id").fetchall():
        liked = build.rng.choice((1, 2, 3, 3, 4))
        weights = [1 + (stars >= 4) * liked for stars, _, _ in texts]
        count = min(int(build.rng.expovariate(1 / 4)), 16)
        for author in build.rng.sample(authors, count):
            stars, title, body = build.rng.choices(texts, weights)[0]
            when = build.before(200, 199)
            build.insert(
                "review", product_id=product_id, author=author, stars=stars, title=title, body=body, written_at=when
            )


def _fill_coupons(build: Build, codes: list[str]) -> None:
    for code in build.rng.sample(codes, 4):
        digits = "".join(char for char in code if char.isdigit())
        build.insert(
            "coupon",
            code=code,
            percent=int(digits),
            minimum=build.rng.choice((0, 3000, 5000, 10000)),
            expires_on=build.day(build.rng.choice((-20, 15, 40, 90))),
        )


def _fill_addresses(build: Build, owner: str) -> None:
    labels = ["Home", *build.rng.sample(ADDRESS_LABELS[1:], 2)]
    default = build.rng.randrange(2)
    for number, label in enumerate(labels):
        build.insert(
            "address",
            label=label,
            name=build.words.person().name if label == "Parents" else owner,
            street=build.words.street(),
            city=build.words.city(),
            postcode=build.words.postcode(),
            is_default=int(number == default),
        )


def _fill_order(build: Build, order_id: int, days: int) -> None:
    rng = build.rng
    variants = build.db.execute(
        "SELECT variant.id, price FROM variant JOIN product ON product.id = product_id ORDER BY variant.id"
    ).fetchall()
    lines = {
        variant: (rng.choice((1, 1, 1, 2, 3)), price) for variant, price in rng.sample(variants, rng.randint(1, 4))
    }
    name, street, city, postcode = rng.choice(
        build.db.execute("SELECT name, street, city, postcode FROM address ORDER BY id").fetchall()
    )
    shipping = rng.choice(tuple(SHIPPING))
    subtotal = sum(quantity * price for quantity, price in lines.values())
    recent = days < 45
    build.insert(
        "orders",
        id=order_id,
        placed_at=build.before(days, 6),
        status=rng.choice(("Processing", "Shipped", "Processing") if recent else ("Delivered",) * 6 + ("Cancelled",)),
        recipient=name,
        street=street,
        city=city,
        postcode=postcode,
        shipping=shipping,
        payment=rng.choice(tuple(PAYMENT)),
        gift_message="",
        coupon=None,
        subtotal=subtotal,
        discount=0,
        shipping_cost=SHIPPING[shipping][1],
        total=subtotal + SHIPPING[shipping][1],
    )
    for variant, (quantity, price) in lines.items():
        build.insert("order_line", order_id=order_id, variant_id=variant, quantity=quantity, price=price)


def _fill_cart(build: Build) -> None:
    stocked = build.db.execute("SELECT id FROM variant WHERE stock >= 4 ORDER BY id").fetchall()
    for (variant,) in build.rng.sample(stocked, build.rng.choice((0, 0, 1, 2, 3))):
        build.insert("cart_line", variant_id=variant, quantity=build.rng.choice((1, 1, 2)))
