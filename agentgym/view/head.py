"""The head of a page: facts about everything, and the rows. A server sends it, a report holds it."""

from __future__ import annotations

from typing import Any

from agentgym.view.collection import Collection
from agentgym.view.rows import columns_of
from agentgym.view.versus import sides


def head_of(collection: Collection, since: str = "") -> dict[str, Any]:
    """Return what a page has to know before it can show anything, as JSON data.

    Args:
        collection: What is shown.
        since: The version that the page has already; the rows that are still the same are left out.
    """
    version, start, rows = collection.since(since)
    return {
        "title": collection.title,
        "version": version,
        "metrics": collection.metrics,
        "sides": sides(collection.rows),
        "note": "",
        "start": start,
        "columns": columns_of(rows),
    }
