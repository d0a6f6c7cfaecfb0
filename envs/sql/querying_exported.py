"""Runs one query on a SQLite file in a process of its own, and replies with its result as JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from agentgym.tools.database.base import QueryError, QueryLimits
from agentgym.tools.database.results import check_text
from agentgym.tools.database.sqlite.engine import SqliteDatabase


def main() -> None:
    """Answer the request on stdin."""
    request = json.loads(sys.stdin.buffer.read())
    with os.fdopen(int(os.environ["AGENTGYM_REPLY_FD"]), "w", encoding="utf-8") as reply:
        json.dump(_answer(Path(request["database"]), request["sql"], QueryLimits(**request["limits"])), reply)


def _answer(database: Path, sql: str, limits: QueryLimits) -> dict[str, Any]:
    try:
        check_text(sql, limits)
        result = SqliteDatabase(database).run(sql, limits)
    except QueryError as error:
        return {"error": str(error)}
    return {"columns": result.columns, "types": result.types, "rows": result.rows, "truncated": result.truncated}
