"""Solutions of the WebArena-Verified tasks that need only opened addresses and a response."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from agentgym.errors import NoSolution
from agentgym.messages import ToolCall
from agentgym.task_files.left_out import Unusable
from agentgym.tasks.web.addresses import SiteAddresses

_RESPONSE, _NETWORK = "AgentResponseEvaluator", "NetworkEventEvaluator"
_BEYOND = ("headers", "post_data", "response_content", "response_cookies")
"""Properties of a request that an evaluator may require, but that opening an address cannot set."""
_PATTERN = "^"
"""The character that an expected text begins with if it is a regular expression."""


def solve(entry: Mapping[str, Any], sites: Mapping[str, str]) -> Generator[ToolCall, Any, None]:
    """Yield calls that the evaluators of a task accept.

    Args:
        entry: The task as its file has it.
        sites: Addresses of its sites by name.

    Raises:
        NoSolution: It takes more than opening addresses, such as filling in a form.
    """
    addresses = SiteAddresses(sites, "sites")
    requests = [rule["expected"] for rule in _rules(entry, _NETWORK) if not rule.get("should_not_exist")]
    try:
        opened = [addresses.filled(_address(expected)) for expected in requests]
    except Unusable as error:
        raise NoSolution(f"an expected address cannot be opened: {error}") from error
    response = next(_rules(entry, _RESPONSE))["expected"]
    submitted = {
        "task_type": str(response["task_type"]).upper(),
        "status": str(response["status"]).upper(),
        "retrieved_data": _first_choices(response.get("retrieved_data")),
    }
    for address in opened:
        yield ToolCall("goto", {"address": address})
    yield ToolCall("submit", submitted)


def _rules(entry: Mapping[str, Any], evaluator: str) -> Iterator[Mapping[str, Any]]:
    return (rule for rule in entry["eval"] if rule.get("evaluator") == evaluator)


def _address(expected: Mapping[str, Any]) -> str:
    address = expected["url"] if isinstance(expected["url"], str) else expected["url"][0]
    needed = [name for name in _BEYOND if expected.get(name)]
    plain = str(expected.get("http_method", "GET")).upper() == "GET" and expected.get("response_status", 200) == 200
    query = expected.get("query_params") or {}
    if needed or not plain or _PATTERN in f"{address} {list(query.values())}":
        raise NoSolution("the task has no demonstration, and opening addresses does not solve it")
    joint = "&" if "?" in address else "?"
    return f"{address}{joint}{urlencode(query, doseq=True)}" if query else address


def _first_choices(items: Iterable[Any] | None) -> list[Any] | None:
    """Return the expected data with the first of several choices where any of them is right."""
    if items is None:
        return None
    return [item[0] if isinstance(item, list) and item else item for item in items]
