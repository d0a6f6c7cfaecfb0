"""Helpers of the admin site's families: steps that open rows, and the effects of forms on the tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from agentgym.tasks.web.family import Change, Step, WebScene
from agentgym.tasks.web.plan import button, fill, link, select, tick

PAGE = 10
"""Rows on one page of a table."""


def pick_customer(scene: WebScene, condition: str = "1", *params: Any) -> sqlite3.Row:
    """Return a customer whose name is unique."""
    customer = scene.pick(f"SELECT * FROM customers WHERE {condition}", *params)
    return scene.only("SELECT * FROM customers WHERE name = ?", customer["name"])


def pick_person(scene: WebScene, condition: str = "1", *params: Any) -> sqlite3.Row:
    """Return a member of staff."""
    return scene.pick(f"SELECT * FROM staff WHERE {condition}", *params)


def find_customer(name: str) -> list[Step]:
    """Return the steps that search for a customer."""
    return [link("Customers"), fill("Name, contact, e-mail or city", name), button("Filter")]


def open_customer(customer: sqlite3.Row) -> list[Step]:
    """Return the steps that open a customer's form."""
    return [*find_customer(customer["name"]), link(customer["name"])]


def find_invoice(words: str, status: str | None = None) -> list[Step]:
    """Return the steps that search for invoices."""
    steps = [link("Invoices"), fill("Invoice or customer", words)]
    return [*steps, *([select("Status", status)] if status else []), button("Filter")]


def open_person(person: sqlite3.Row) -> list[Step]:
    """Return the steps that open the form of a member of staff."""
    return [link("Staff"), fill("Name or e-mail", person["email"]), button("Filter"), link(person["name"])]


def with_chosen(names: Sequence[str], action: str) -> list[Step]:
    """Return the steps that tick rows and apply a bulk action to them."""
    return [*(tick(f"Choose {name}") for name in names), select("With the chosen rows", action), button("Apply")]


def setting(table: str, number: int, **values: Any) -> Change:
    """Return the change to some columns of one row."""
    return f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in values)} WHERE id = ?", [*values.values(), number]


def adding(table: str, **values: Any) -> Change:
    """Return the insertion of one row."""
    return f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})", [*values.values()]
