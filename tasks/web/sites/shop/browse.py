"""The shop's pages for finding products: start page, categories and search with filters, products and their reviews."""

from __future__ import annotations

from typing import Any

from agentgym.tasks.web.sites.site import Routes, SiteReply
from agentgym.tasks.web.sites.visit import PageProblem, Visit

routes = Routes()

PRODUCTS = """
SELECT product.*, category.name AS category, category.slug AS slug,
    (SELECT count(*) FROM review WHERE product_id = product.id) AS reviews,
    (SELECT round(avg(stars), 1) FROM review WHERE product_id = product.id) AS rating,
    (SELECT coalesce(sum(stock), 0) FROM variant WHERE product_id = product.id) AS stock
FROM product JOIN category ON category.id = category_id
"""
"""All products with the columns that lists show."""
SORTS = {
    "relevance": ("Featured", "id"),
    "price": ("Price: low to high", "price, id"),
    "-price": ("Price: high to low", "price DESC, id"),
    "-rating": ("Best rated", "coalesce(rating, 0) DESC, reviews DESC, id"),
    "-reviews": ("Most reviewed", "reviews DESC, id"),
    "-added": ("Newest", "added_on DESC, id"),
}
RATINGS = ("2", "3", "4", "4.5")


@routes.get("/")
def home(visit: Visit) -> SiteReply:
    """Show the categories, popular products and new ones."""
    liked = visit.rows(f"SELECT * FROM ({PRODUCTS}) WHERE reviews >= 4 ORDER BY rating DESC, reviews DESC, id LIMIT 4")
    new = visit.rows(f"SELECT * FROM ({PRODUCTS}) ORDER BY added_on DESC, id LIMIT 4")
    return visit.page("shop/home.html", liked=liked, new=new)


@routes.get("/c/{slug}")
def category(visit: Visit, slug: str) -> SiteReply:
    """List the products of one category."""
    category = visit.find("category", "SELECT * FROM category WHERE slug = ?", slug)
    return _listing(visit, category["name"], "slug = ?", slug)


@routes.get("/search")
def search(visit: Visit) -> SiteReply:
    """List the products whose name, brand or material contains every word of the query."""
    words = visit.query.get("q", "").split()[:8]
    if not words:
        return _listing(visit, "All products", "1")
    text = "instr(lower(name || ' ' || brand || ' ' || material || ' ' || category), lower(?)) > 0"
    return _listing(visit, f"Results for “{' '.join(words)}”", " AND ".join([text] * len(words)), *words)


def _listing(visit: Visit, heading: str, condition: str, *params: Any) -> SiteReply:
    brands = [
        row["brand"]
        for row in visit.rows(f"SELECT DISTINCT brand FROM ({PRODUCTS}) WHERE {condition} ORDER BY 1", *params)
    ]
    errors: dict[str, str] = {}
    filters = [f"({condition})", *_filters(visit, brands, errors)]
    values = [*params, *(brand for brand in brands if brand == visit.query.get("brand"))]
    order = SORTS.get(visit.query.get("sort", ""), SORTS["relevance"])[1]
    rows = visit.rows(f"SELECT * FROM ({PRODUCTS}) WHERE {' AND '.join(filters)} ORDER BY {order}", *values)
    return visit.page(
        "shop/list.html",
        heading=heading,
        pager=visit.pager(rows),
        brands=brands,
        sorts=SORTS,
        ratings=RATINGS,
        errors=errors,
    )


def _filters(visit: Visit, brands: list[str], errors: dict[str, str]) -> list[str]:
    conditions: list[str] = []
    if visit.query.get("brand") in brands:
        conditions.append("brand = ?")
    for name, sign in (("min", ">="), ("max", "<=")):
        text = visit.query.get(name, "")
        if text.isascii() and text.isdecimal() and len(text) < 8:
            conditions.append(f"price {sign} {int(text) * 100}")
        elif text:
            errors[name] = "Please enter a whole number of dollars."
    if visit.query.get("rating") in RATINGS:
        conditions.append(f"rating >= {visit.query['rating']}")
    if visit.query.get("stock"):
        conditions.append("stock > 0")
    return conditions


@routes.get("/product/{number:int}")
def product(visit: Visit, number: int) -> SiteReply:
    """Show one product: its options, its details, or its reviews."""
    return show_product(visit, number)


def show_product(visit: Visit, number: int, status: int = 200) -> SiteReply:
    """Show the page of a product, with the errors of the visit's form."""
    product = visit.find("product", f"SELECT * FROM ({PRODUCTS}) WHERE id = ?", number)
    variants = visit.rows("SELECT * FROM variant WHERE product_id = ? ORDER BY id", number)
    reviews = visit.rows("SELECT * FROM review WHERE product_id = ? ORDER BY written_at DESC, id", number)
    return visit.page(
        "shop/product.html",
        status,
        product=product,
        sizes=list(dict.fromkeys(row["size"] for row in variants if row["size"])),
        colours=list(dict.fromkeys(row["colour"] for row in variants)),
        variants=variants,
        pager=visit.pager(reviews, 5),
        wished=visit.row("SELECT 1 FROM wishlist WHERE product_id = ?", number) is not None,
        tab="reviews" if visit.query.get("tab") == "reviews" else "details",
    )


@routes.get("/product/{number:int}/review")
def review_form(visit: Visit, number: int) -> SiteReply:
    """Show the form for a review."""
    return _review_page(visit, number)


@routes.post("/product/{number:int}/review")
def write_review(visit: Visit, number: int) -> SiteReply:
    """Save a review; a customer can write one per product."""
    visit.find("product", "SELECT id FROM product WHERE id = ?", number)
    form, author = visit.form, visit.value("SELECT name FROM customer")
    stars = form.choice("stars", ("1", "2", "3", "4", "5"))
    title, body = form.text("title", most=80), form.text("body", most=2000)
    if visit.row("SELECT 1 FROM review WHERE product_id = ? AND author = ?", number, author):
        raise PageProblem(409, "You have already reviewed this product.")
    if not form.ok:
        return _review_page(visit, number, 422)
    visit.run(
        "INSERT INTO review (product_id, author, stars, title, body, written_at) VALUES (?, ?, ?, ?, ?, ?)",
        *(number, author, int(stars), title, body, visit.stamp),
    )
    return visit.redirect(f"/product/{number}?tab=reviews", "Thank you for your review.")


def _review_page(visit: Visit, number: int, status: int = 200) -> SiteReply:
    product = visit.find("product", "SELECT * FROM product WHERE id = ?", number)
    return visit.page("shop/review.html", status, product=product)


@routes.post("/product/{number:int}/wish")
def wish(visit: Visit, number: int) -> SiteReply:
    """Add a product to the wish list."""
    product = visit.find("product", "SELECT * FROM product WHERE id = ?", number)
    visit.run("INSERT OR IGNORE INTO wishlist VALUES (?, ?)", number, visit.stamp)
    return visit.redirect(f"/product/{number}", f"{product['name']} is on your wish list.")


@routes.post("/product/{number:int}/unwish")
def unwish(visit: Visit, number: int) -> SiteReply:
    """Remove a product from the wish list."""
    product = visit.find("product", "SELECT * FROM product WHERE id = ?", number)
    visit.run("DELETE FROM wishlist WHERE product_id = ?", number)
    return visit.redirect("/account/wishlist", f"{product['name']} was removed from your wish list.")
