"""A small shop, and tasks about it in the form of WebArena-Verified."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.browsers import Site

SITE = "shopping"


def open_shop() -> Site:
    """A shop at a loopback address, whose pages ask for things that are elsewhere."""
    shop = Site()
    shop.pages["/"] = (
        "<h1>Shop</h1><a href='/lamp?ref=home'>Lamp</a> <a href='/cart'>Cart</a>"
        "<script src='/shop.js'></script><iframe src='http://elsewhere.test/'></iframe>"
    )
    shop.pages["/shop.js"] = (200, {"Content-Type": "text/javascript"}, "document.title = 'Shop'")
    shop.pages["/lamp"] = (
        "<h1>Lamp</h1><p>$12.00</p><form method='post' action='/cart'><input aria-label='Amount' name='amount'>"
        "<input type='hidden' name='key' value='k1'><button>Add</button></form>"
    )
    shop.pages["/cart"] = "<h1>Cart</h1>"
    return shop


def response_rule(task_type: str, data: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    """The evaluator of the response; every entry has one."""
    schema = {"type": "array", "items": {"type": "string"}} if data else {"type": "null"}
    return {
        "evaluator": "AgentResponseEvaluator",
        "results_schema": schema,
        "expected": {"task_type": task_type, "status": "SUCCESS", "retrieved_data": data},
    } | more


def request_rule(path: str, more: dict[str, Any] | None = None, **expected: Any) -> dict[str, Any]:
    """An evaluator of the requests."""
    return {
        "evaluator": "NetworkEventEvaluator",
        "expected": {"url": f"__SHOPPING__{path}", **expected},
        **(more or {}),
    }


def entry(number: int, intent: str, *rules: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A task."""
    return {
        "sites": [SITE],
        "task_id": number,
        "intent_template_id": number,
        "start_urls": ["__SHOPPING__"],
        "intent": intent,
        "intent_template": intent,
        "instantiation_dict": {},
        "eval": list(rules),
        "revision": 1,
    } | changes


PRICE = entry(
    1,
    "What does the lamp cost?",
    response_rule(
        "retrieve", [12], results_schema={"type": "array", "items": {"type": "string", "format": "currency"}}
    ),
)
SHOW = entry(2, "Show the page of the lamp.", response_rule("navigate"), request_rule("/lamp"))
SHOW["eval"][1]["ignored_query_params"] = ["ref"]
BUY = entry(
    3,
    "Add three lamps to the cart.",
    response_rule("mutate"),
    request_rule("/cart", http_method="POST", post_data={"amount": "3"}),
    request_rule("/cart/empty", {"should_not_exist": True}, http_method="POST"),
)
ENTRIES = (PRICE, SHOW, BUY)


def write(folder: Path, *entries: dict[str, Any]) -> Path:
    """Write a file of tasks."""
    file = folder / "lamps.json"
    file.write_text(json.dumps(entries or ENTRIES), encoding="utf-8")
    return file
