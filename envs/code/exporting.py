"""Tasks of the code environment as Harbor task folders: the answer is a file, judged by the environment's grader."""

from __future__ import annotations

from agentgym.task import Task
from agentgym.tasks.exporting import ANSWERS, HarborFolder, here_document


def code_folder(task: Task) -> HarborFolder:
    """Return a task of the code environment as a Harbor task folder."""
    wants_function = task.data["kind"] in ("function", "fix")
    place = f"{ANSWERS}/{'solution.py' if wants_function else 'answer.txt'}"
    what = "function" if wants_function else "value, as a Python literal,"
    starter_code = str(task.data.get("code", "")) if wants_function else ""
    answer = str(task.gold["code"] if wants_function else task.gold["answer"])
    return HarborFolder(
        instruction=f"{task.prompt.rstrip()}\n\nWrite the {what} to {place}.",
        judge="agentgym.envs.code.judging_exported",
        given={"answer": place},
        dockerfile=f"COPY solution.py {place}\n" if starter_code else "",
        context={"solution.py": starter_code} if starter_code else {},
        solve=f"#!/bin/bash\n{here_document(place, answer)}",
    )
