"""Tasks of the SQL environment as Harbor task folders: a SQLite file, and an answer in another file."""

from __future__ import annotations

from agentgym.core.answers.written import ROUNDING
from agentgym.core.task import Task
from agentgym.envs.sql.ties import with_sort_keys
from agentgym.tasks.exporting import ANSWERS, HarborFolder, here_document

_DATABASE, _ANSWER = "database.sqlite", f"{ANSWERS}/answer.txt"
_HOW = f"""The database is the SQLite file {ANSWERS}/{_DATABASE}; Python's module sqlite3 reads it. The order of rows
counts only if the question asks for one. {ROUNDING}
Write your answer to {_ANSWER}: one SELECT statement whose result is the answer, with just the columns that are asked
for, or the value itself."""


def sql_folder(task: Task, database: bytes) -> HarborFolder:
    """Return a task of the SQL environment as a Harbor task folder.

    Args:
        task: The task, whose engine is SQLite.
        database: Its database, as the bytes of a file.
    """
    gold = task.gold["sql"]
    return HarborFolder(
        instruction=f"{task.prompt.rstrip()}\n\n{_HOW}",
        judge="agentgym.envs.sql.judging_exported",
        settings={"answer": _ANSWER, "keyed": with_sort_keys(gold, "sqlite") if task.gold["ordered"] else None},
        dockerfile=f"COPY {_DATABASE} {ANSWERS}/{_DATABASE}\n",
        context={_DATABASE: database},
        tests={_DATABASE: database},
        solve=f"#!/bin/bash\n{here_document(_ANSWER, gold)}",
    )
