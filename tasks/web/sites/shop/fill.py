"""The shop's initial content: products with variants and reviews, and a customer with orders and addresses."""

from __future__ import annotations

from typing import Any

from agentgym.tasks.data_files import read_data
from agentgym.tasks.web.sites.site import Build

LISTED = read_data("web/sites/shop", "shop")
"""The goods, and the texts about them."""
SHIPPING = {
    "standard": ("Standard (3 to 5 days)", 495),
    "express": ("Express (next day)", 1495),
    "pickup": ("Pick-up", 0),
}
"""Delivery methods: their names, and their prices in cents."""
PAYMENT = {"card": "Credit card ending in 4821", "invoice": "Invoice", "giftcard": "Gift card balance"}
STATUSES = ("Processing", "Shipped", "Delivered", "Cancelled")
ADDRESS_LABELS = ("Home", "Office", "Parents", "Summer house")


def fill(build: Build) -> None:
    """Fill the shop for a seed."""
    owner = build.words.person()
    build.insert("customer", name=owner.name, email=owner.email, newsletter=build.rng.randrange(2))
    brands = build.rng.sample(build.words.part(LISTED["brands"]), 6)
    series = build.words.part(LISTED["series"])
    for category in LISTED["categories"]:
        category_id = build.insert("category", slug=category["slug"], name=category["name"])
        _fill_category(build, category, category_id, brands, series)
    _fill_reviews(build, LISTED["reviews"])
    _fill_coupons(build, LISTED["coupons"])
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
    colours = rng.sample(LISTED["colours"], rng.choice((1, 2, 2, 3)))
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
