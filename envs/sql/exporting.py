"""Tasks of the SQL environment as Harbor task folders: a SQLite file, and an answer in another file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from agentgym.core.answers.written import ROUNDING
from agentgym.core.task import Task
from agentgym.envs.sql.ties import ties_of
from agentgym.tasks.exporting import ANSWERS, HarborFolder, here_document

_DATABASE, _ANSWER = "database.sqlite", f"{ANSWERS}/answer.txt"
_HOW = f"""The database is the SQLite file {ANSWERS}/{_DATABASE}; Python's module sqlite3 reads it. The order of rows
counts only if the question asks for one. {ROUNDING}
Write your answer to {_ANSWER}: one SELECT statement whose result is the answer, with just the columns that are asked
for, or the value itself."""


def sql_folder(task: Task, database: bytes, other_golds: Sequence[str]) -> HarborFolder:
    """Return a task of the SQL environment as a Harbor task folder.

    Args:
        task: The task, whose engine is SQLite.
        database: Its database, as the bytes of a file.
        other_golds: Queries whose results are right too (`ties.other_golds`).
    """
    gold, ties = task.gold["sql"], ties_of(task.gold["sql"], "sqlite")
    return HarborFolder(
        instruction=f"{task.prompt.rstrip()}\n\n{_HOW}",
        judge="agentgym.envs.sql.judging_exported",
        settings={"answer": _ANSWER, "ties": ties and asdict(ties), "others": list(other_golds)},
        dockerfile=f"COPY {_DATABASE} {ANSWERS}/{_DATABASE}\n",
        context={_DATABASE: database},
        tests={_DATABASE: database},
        solve=f"#!/bin/bash\n{here_document(_ANSWER, gold)}",
    )
