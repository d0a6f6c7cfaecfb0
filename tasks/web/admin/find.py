"""Families of the admin site: facts, counts and sums."""

from __future__ import annotations

from datetime import date, timedelta

from agentgym.tasks.web.admin.steps import find_customer, open_customer, pick_customer
from agentgym.tasks.web.family import WebDraft, WebScene, family
from agentgym.tasks.web.plan import answer, button, fill, link, select
from agentgym.tasks.web.sites.admin.fill import CUSTOMER_STATUS, DEPARTMENTS, INVOICE_STATUS, SEGMENTS
from agentgym.tasks.web.sites.pages import day, money


@family(
    "admin.credit_limit",
    1,
    "What is the credit limit of {name}?",
    "How much credit do we give {name} at most? Answer with the credit limit.",
    "Look up the credit limit of the customer {name}.",
)
def credit_limit(scene: WebScene) -> WebDraft:
    """Read one cell."""
    customer = pick_customer(scene)
    limit = money(customer["credit_limit"])
    return WebDraft([*find_customer(customer["name"]), answer(limit)], {"name": customer["name"]}, answer=limit)


@family(
    "admin.days_to_pay",
    1,
    "How many days does {name} have to pay an invoice? Answer with a number.",
    "Open the customer {name}: how many days to pay do they get? Answer with a number.",
    "What are the payment terms of {name}, in days? Answer with a number.",
)
def days_to_pay(scene: WebScene) -> WebDraft:
    """Read one field of a form."""
    customer = pick_customer(scene)
    days = str(customer["terms"])
    return WebDraft([*open_customer(customer), answer(days)], {"name": customer["name"]}, answer=days)


@family(
    "admin.count_customers",
    2,
    "How many customers of the segment “{segment}” have the status “{status}”? Answer with a number.",
    "Count our {segment} customers whose status is “{status}”. Answer with a number.",
    "I need to know how many customers are in the segment “{segment}” and have the status “{status}”. Answer "
    "with a number.",
)
def count_customers(scene: WebScene) -> WebDraft:
    """Filter by two columns and read the count."""
    segment, status = scene.choice(SEGMENTS), scene.choice(CUSTOMER_STATUS)
    count = str(scene.value("SELECT count(*) FROM customers WHERE segment = ? AND status = ?", segment, status))
    steps = [link("Customers"), select("Segment", segment), select("Status", status), button("Filter")]
    return WebDraft([*steps, answer(count)], {"segment": segment, "status": status}, answer=count)


@family(
    "admin.sum_invoices",
    3,
    "What is the total amount of the invoices with the status “{status}” that were issued from {since} to {until} "
    "(inclusive)?",
    "Add up all “{status}” invoices issued between {since} and {until}, both days included. What is the sum?",
    "How much do the invoices with the status “{status}” come to that were issued from {since} up to and "
    "including {until}?",
)
def sum_invoices(scene: WebScene) -> WebDraft:
    """Filter by status and dates, and read the sum."""
    status = scene.choice(INVOICE_STATUS)
    until = date.fromisoformat(scene.today) - timedelta(days=scene.rng.randrange(0, 60))
    since = until - timedelta(days=scene.rng.randrange(14, 90))
    sql = "SELECT count(*), sum(amount) FROM invoices WHERE status = ? AND issued BETWEEN ? AND ?"
    totals = scene.one(sql, status, str(since), str(until))
    scene.need(totals[0] >= 2)
    steps = [
        link("Invoices"),
        select("Status", status),
        fill("Issued since", str(since)),
        fill("Issued until", str(until)),
    ]
    total = money(totals[1])
    words = {"status": status, "since": day(since), "until": day(until)}
    return WebDraft([*steps, button("Filter"), answer(total)], words, answer=total)


@family(
    "admin.longest_serving",
    2,
    "Which of the active people in {department} has been here longest? Answer with the name.",
    "Find the active person in the department {department} who started first. Answer with the name.",
    "Among the active people in {department}, who has the earliest start date? Answer with the name.",
)
def longest_serving(scene: WebScene) -> WebDraft:
    """Filter, sort and read the first row."""
    department = scene.choice(DEPARTMENTS)
    people = scene.rows("SELECT * FROM staff WHERE department = ? AND active ORDER BY started", department)
    scene.need(len(people) > 1 and people[0]["started"] < people[1]["started"])
    steps = [
        link("Staff"),
        select("Department", department),
        select("State", "active"),
        button("Filter"),
        link("Started"),
    ]
    return WebDraft([*steps, answer(people[0]["name"])], {"department": department}, answer=people[0]["name"])


@family(
    "admin.largest_open",
    4,
    "Which customer has the overdue invoice with the largest amount, and what is the phone number of that customer? "
    "Answer with the phone number.",
    "I want to call the customer of our largest overdue invoice. What is their phone number?",
    "Find the overdue invoice with the highest amount and tell me the phone number of its customer.",
)
def largest_overdue(scene: WebScene) -> WebDraft:
    """Follow the first row of a sorted table to a linked record."""
    rows = scene.rows("SELECT * FROM invoices WHERE status = 'overdue' ORDER BY amount DESC LIMIT 2")
    scene.need(len(rows) == 2 and rows[0]["amount"] > rows[1]["amount"])
    customer = scene.one("SELECT * FROM customers WHERE id = ?", rows[0]["customer"])
    steps = [link("Invoices"), select("Status", "overdue"), button("Filter"), link("Amount"), link("Amount")]
    steps += [link(rows[0]["number"]), link(customer["name"]), answer(customer["phone"])]
    return WebDraft(steps, answer=customer["phone"])
