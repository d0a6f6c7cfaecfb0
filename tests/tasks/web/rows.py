"""Files of tasks in WebArena's form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def arena(task_id: int = 0, **changes: Any) -> dict[str, Any]:
    """A task in WebArena's form."""
    rule = {"eval_types": ["string_match"], "reference_answers": {"exact_match": "$12.00"}}
    return {
        "sites": ["shopping"],
        "task_id": task_id,
        "start_url": "__SHOPPING__",
        "intent": "What does the lamp cost?",
        "require_login": False,
        "eval": rule,
    } | changes


def write(folder: Path, *entries: Any) -> Path:
    """Write a file of entries."""
    file = folder / "tasks.json"
    file.write_text(json.dumps(list(entries)), encoding="utf-8")
    return file
