"""The head of a page: facts about the whole collection, and the rows. Servers and reports both use it."""

from __future__ import annotations

from typing import Any

from agentgym.view.collection import Collection
from agentgym.view.rows import columns_of
from agentgym.view.versus import sides


def head_of(collection: Collection, since: str = "") -> dict[str, Any]:
    """Return the data that a page needs first, as JSON data.

    Args:
        collection: The trajectories to show.
        since: The version that the page already has; unchanged rows are left out.
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
