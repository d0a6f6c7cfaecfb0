"""Judges an exported task of the SQL environment, where nothing but Python is installed.

The answer's query runs in an unprivileged process, on the judge's own copy of the database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.base.errors import BrokenTask
from agentgym.core.task import Task
from agentgym.envs.sql import querying_exported
from agentgym.envs.sql.grading import match
from agentgym.envs.sql.swaps import Ties, match_with_ties
from agentgym.envs.sql.verdict import GRADING_LIMITS, SQLVerdict, query_in, verdict_on_rows, verdict_on_value
from agentgym.tasks.exporting.inside.answers import read_answer
from agentgym.tools.database.base import QueryError, QueryResult
from agentgym.tools.sandbox import Ended, Sandbox, SandboxLimits

_LIMITS = SandboxLimits(wall_s=30.0, cpu_s=20.0, memory_mb=1536)
_PROGRAM = f"""
import os, sys
sys.path.insert(0, os.getcwd())
sys.dont_write_bytecode = True
from {querying_exported.__name__} import main
main()
"""
_DATABASE = "database.sqlite"
_MAX_BYTES = 200_000


@dataclass(frozen=True)
class _Databases:
    """Runs queries, each in a process of its own."""

    files: Mapping[str, bytes]
    """The database, and the modules that read it."""

    def ask(self, sql: str) -> QueryResult:
        """Return the result of a query. Raises `QueryError` if it fails or ends its process."""
        request = json.dumps({"database": _DATABASE, "sql": sql, "limits": vars(GRADING_LIMITS)}).encode()
        with Sandbox() as sandbox:  # pyright: ignore[reportCallIssue] (see `agentgym.envs.code.judging_exported`)
            sandbox.upload(self.files)
            ended = sandbox.exec(code=_PROGRAM, stdin=request, limits=_LIMITS)
        try:
            reply: dict[str, Any] = json.loads(ended.reply) if ended.ended is Ended.EXITED else {}
        except ValueError:
            reply = {}
        if "rows" not in reply:
            raise QueryError(str(reply.get("error") or f"the query did not end: {ended.message}"))
        rows = tuple(map(tuple, reply["rows"]))
        return QueryResult(tuple(reply["columns"]), tuple(reply["types"]), rows, reply["truncated"], 0.0)


def prepare(task: Task, settings: Mapping[str, Any], folder: Path) -> Callable[[Path], Mapping[str, float]]:
    """Return the function that grades the answer in a folder."""
    modules = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.glob("agentgym/**/*.py")}
    databases = _Databases({**modules, _DATABASE: (folder / _DATABASE).read_bytes()})
    gold = _gold(databases, task)
    return lambda root: _rewards(databases, task, settings, gold, read_answer(root, settings["answer"], _MAX_BYTES))


def _gold(databases: _Databases, task: Task) -> QueryResult:
    try:
        return databases.ask(task.gold["sql"])
    except QueryError as error:
        raise BrokenTask(f"the gold query of task {task.id!r} fails: {error}") from error


def _rewards(
    databases: _Databases, task: Task, settings: Mapping[str, Any], gold: QueryResult, answer: str
) -> Mapping[str, float]:
    if not answer.strip():
        return {"reward": 0.0, "partial": 0.0}
    try:
        verdict = _verdict(databases, task, settings, gold, answer)
    except QueryError:
        return {"reward": 0.0, "partial": 0.0}
    return {"reward": float(verdict.solved), "partial": verdict.similarity}


def _verdict(
    databases: _Databases, task: Task, settings: Mapping[str, Any], gold: QueryResult, answer: str
) -> SQLVerdict:
    ordered, query = bool(task.gold["ordered"]), query_in(answer, "sqlite")
    if query is None:
        return verdict_on_value(answer, gold, ordered, task.prompt)
    result = databases.ask(query)
    tied = settings["ties"]
    ties = tied and Ties(**{**tied, "keys": tuple(tied["keys"])})

    def matches_up_to_ties(fewest: int) -> bool:
        return match_with_ties(result, gold, ties, ordered, databases.ask, fewest) or any(
            match(result, databases.ask(other), ordered, fewest).equal for other in settings["others"]
        )

    return verdict_on_rows(result, gold, ordered, task.prompt, matches_up_to_ties)
