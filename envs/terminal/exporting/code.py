"""Tasks of the code environment as task folders: the answer is a file, judged by the environment's own grader."""

from __future__ import annotations

import json

from agentgym.envs.terminal.exporting.folders import Written, here_document
from agentgym.envs.terminal.exporting.grader import grader_files
from agentgym.task import Task

FUNCTION_FILE, VALUE_FILE = "/app/solution.py", "/app/answer.txt"
_TEST = """#!/bin/bash
# Writes /logs/verifier/reward.json, unless the grader itself fails.
exec python3 /tests/grade.py
"""


def code_folder(task: Task, image: str) -> Written:
    """Return what a task of the code environment becomes.

    Args:
        task: The task.
        image: The image to start from, which needs bash and Python 3.11 or newer.
    """
    wants_function = task.data["kind"] in ("function", "fix")
    place = FUNCTION_FILE if wants_function else VALUE_FILE
    what = "function" if wants_function else "value, as a Python literal,"
    given = str(task.data.get("code", "")) if wants_function else ""
    answer = str(task.gold["code"] if wants_function else task.gold["answer"])
    return Written(
        instruction=f"{task.prompt.rstrip()}\n\nWrite the {what} to {place}.",
        dockerfile=f"FROM {image}\nWORKDIR /app\n" + ("COPY solution.py /app/solution.py\n" if given else ""),
        solve=f"#!/bin/bash\n{here_document(place, answer)}",
        tests={
            "test.sh": _TEST,
            "task.json": json.dumps({"answer": place, "task": task.to_dict()}),
            **grader_files(),
        },
        context={"solution.py": given} if given else {},
    )
