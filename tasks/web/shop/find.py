"""Shop: families that find something out, or put the right product on the wish list."""

from __future__ import annotations

from agentgym.tasks.web.checks import exists
from agentgym.tasks.web.family import IMPOSSIBLE, WebDraft, WebScene, family
from agentgym.tasks.web.plan import answer, button, fill, link, select, tick
from agentgym.tasks.web.shop.steps import open_product, products
from agentgym.tasks.web.sites.pages import money

_WISH = "INSERT INTO wishlist VALUES (?, (SELECT now FROM clock))"
_BUDGETS = (30, 40, 50, 60, 80, 100, 120, 150)


@family(
    "shop.price",
    1,
    "How much does the {name} cost? Answer with the price.",
    "Please look up the price of the product “{name}” and tell me.",
    "What is the price of the {name}?",
)
def price(scene: WebScene) -> WebDraft:
    """Ask for the price of a product."""
    product = scene.choice(products(scene))
    text = money(product["price"])
    return WebDraft(words={"name": product["name"]}, plan=[*open_product(product["name"]), answer(text)], answer=text)


@family(
    "shop.detail",
    1,
    "What is the {what} of the {name}? Answer as the shop's page shows it.",
    "Open the page of “{name}” and tell me its {what}, just as it is written there.",
    "I'd like to know the {what} of the {name}. Answer with the exact words of the shop's page.",
)
def detail(scene: WebScene) -> WebDraft:
    """Ask for one detail of a product."""
    product = scene.choice(products(scene))
    years = product["warranty"]
    what, value = scene.choice(
        [
            ("material", product["material"]),
            ("weight", f"{product['weight']} g"),
            ("warranty", f"{years} year{'s' if years > 1 else ''}"),
        ]
    )
    plan = [*open_product(product["name"]), answer(value)]
    return WebDraft(words={"name": product["name"], "what": what}, plan=plan, answer=value)


@family(
    "shop.wish",
    1,
    "Put the {name} on my wish list.",
    "Add “{name}” to my wish list, please.",
    "I'd like the {name} to be on my wish list.",
)
def wish(scene: WebScene) -> WebDraft:
    """Put a named product on the wish list."""
    product = scene.choice(products(scene, "id NOT IN (SELECT product_id FROM wishlist)"))
    return WebDraft(
        words={"name": product["name"]},
        plan=[*open_product(product["name"]), button("Add to wish list")],
        effect=[(_WISH, [product["id"]])],
        checks=[exists("wished", "wishlist WHERE product_id = ?", product["id"])],
    )


@family(
    "shop.cheapest",
    2,
    "Which is the cheapest product of {brand} in the category {category}? Answer with its name.",
    "In {category}, what is the name of the least expensive {brand} product?",
    "I'm looking for the {brand} product with the lowest price in {category}. What is it called?",
)
def cheapest(scene: WebScene) -> WebDraft:
    """Ask for the cheapest product of a brand in a category."""
    groups = scene.rows("SELECT category_id, brand FROM product GROUP BY 1, 2 HAVING count(*) >= 3 ORDER BY 1, 2")
    category_id, brand = scene.choice(groups)
    matches = products(scene, "category_id = ? AND brand = ?", category_id, brand)
    best = min(matches, key=lambda row: row["price"])
    scene.need(sum(row["price"] == best["price"] for row in matches) == 1)
    plan = [
        link(best["category"]),
        select("Brand", brand),
        select("Sort by", "Price: low to high"),
        button("Apply filters"),
        answer(best["name"]),
    ]
    return WebDraft(words={"brand": brand, "category": best["category"]}, plan=plan, answer=best["name"])


@family(
    "shop.wish_filtered",
    3,
    "Put the cheapest product in {category} that is in stock and rated {rating} or better on my wish list.",
    "Among the products in {category} that are in stock and have a rating of at least {rating}, put the one with the "
    "lowest price on my wish list.",
    "I only want something from {category} that is in stock and has a rating of {rating} or more. Put the "
    "cheapest such product on my wish list.",
)
def wish_filtered(scene: WebScene) -> WebDraft:
    """Put the cheapest product that fits filters on the wish list."""
    category = scene.pick("SELECT * FROM category ORDER BY id")
    rating = scene.choice(("3", "4", "4.5"))
    matches = products(scene, "category_id = ? AND stock > 0 AND rating >= CAST(? AS REAL)", category["id"], rating)
    cheapest_of_all = min(products(scene, "category_id = ?", category["id"]), key=lambda row: row["price"])
    scene.need(len(matches) >= 2)
    best, second = sorted(matches, key=lambda row: row["price"])[:2]
    scene.need(best["price"] < second["price"] and best["id"] != cheapest_of_all["id"])
    scene.need(not scene.rows("SELECT 1 FROM wishlist WHERE product_id = ?", best["id"]))
    plan = [
        link(category["name"]),
        select("Rating", f"{rating} and up"),
        tick("In stock only"),
        select("Sort by", "Price: low to high"),
        button("Apply filters"),
        link(best["name"]),
        button("Add to wish list"),
    ]
    return WebDraft(
        words={"category": category["name"], "rating": rating},
        plan=plan,
        effect=[(_WISH, [best["id"]])],
        checks=[exists("wished", "wishlist WHERE product_id = ?", best["id"])],
    )


@family(
    "shop.wish_budget",
    5,
    "From {category} below ${budget}, put the best rated product on my wish list; if there is none in stock under that "
    'price, change nothing and answer "impossible".',
    "I have ${budget} at most for something from {category}, and it has to be in stock. Put the one with the highest "
    'rating on my wish list. If nothing fits my budget, leave everything as it is and answer "impossible".',
    "What is the best rated product in {category} that is in stock and costs less than ${budget}? Put it on "
    'my wish list. If there is none, change nothing and answer "impossible".',
)
def wish_budget(scene: WebScene) -> WebDraft:
    """Put the best product within a budget on the wish list, or find that no product fits."""
    category = scene.pick("SELECT * FROM category ORDER BY id")
    lowest = min(row["price"] for row in products(scene, "category_id = ?", category["id"]))
    tight = scene.rng.random() < 0.4
    budget = lowest // 100 - scene.rng.randint(0, 3) if tight else scene.choice(_BUDGETS)
    scene.need(budget > 0)
    matches = products(scene, "category_id = ? AND stock > 0 AND price <= ?", category["id"], budget * 100)
    scene.need(all(row["price"] != budget * 100 for row in matches))
    words = {"category": category["name"], "budget": budget}
    plan = [link(category["name"]), fill("Price up to ($)", str(budget)), tick("In stock only")]
    plan += [select("Sort by", "Best rated"), button("Apply filters")]
    if not matches:
        return WebDraft(words=words, plan=[*plan, answer(IMPOSSIBLE)], answer=IMPOSSIBLE)
    ranked = sorted(matches, key=lambda row: -(row["rating"] or 0))
    best = ranked[0]
    scene.need(len(ranked) > 1 and (best["rating"] or 0) > (ranked[1]["rating"] or 0))
    scene.need(not scene.rows("SELECT 1 FROM wishlist WHERE product_id = ?", best["id"]))
    return WebDraft(
        words=words,
        plan=[*plan, link(best["name"]), button("Add to wish list")],
        effect=[(_WISH, [best["id"]])],
        checks=[exists("wished", "wishlist WHERE product_id = ?", best["id"])],
    )


@family(
    "shop.spent",
    5,
    "How much did I pay in total for all delivered orders that were sent to {city}? Answer with the amount.",
    "Add up the totals of my orders with the status Delivered that went to {city}, and tell me the sum.",
    "What is the sum of all my orders that have been delivered to {city}? Answer with the amount.",
)
def spent(scene: WebScene) -> WebDraft:
    """Ask for the sum of the totals of several orders."""
    city, count, total = scene.pick(
        "SELECT city, count(*), sum(total) FROM orders WHERE status = 'Delivered' GROUP BY city "
        "HAVING count(*) BETWEEN 2 AND 6 ORDER BY city"
    )
    pages = -(-scene.value("SELECT count(*) FROM orders WHERE status = 'Delivered'") // 10)
    scene.need(count and city)
    plan = [link("Orders"), select("Status", "Delivered"), button("Show")]
    plan += [link("Next page")] * (pages - 1)
    return WebDraft(words={"city": city}, plan=[*plan, answer(money(total))], answer=money(total))
