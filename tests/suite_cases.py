"""Small suites and a small environment over files, for the tests of suites."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentgym.base import yaml12
from agentgym.core.env import Env
from agentgym.core.task import Task, TaskList
from agentgym.core.task_files import TaskFiles
from agentgym.eval.suites import Suite, load_suite
from agentgym.eval.suites.pinning import pin_tasks
from tests.counter_env import Counter

COUNTER = "tests.counter_env:Counter"
LINES = "tests.suite_cases:Lines"
WRONG = "tests.suite_cases:WrongGold"


class LineTasks(TaskList):
    """Each line of a file is the prompt of a task, which also records its file."""

    def __init__(self, path: Path):
        lines = path.read_text(encoding="utf-8").splitlines()
        data = {"file": str(path), "beside": [f"{path}/part"]}
        super().__init__(
            Task(f"lines/{n}", "test", line, data=data, gold={"goal": n + 1}) for n, line in enumerate(lines)
        )


FILES = TaskFiles("file", "tests.suite_cases:LineTasks", {}, ())


class Lines(Counter):
    """Count to the number of a line."""

    files = FILES

    def __init__(self, *, file: str | None = None, **kwargs: Any):
        tasks = FILES.source(None, {} if file is None else {"file": file})
        super().__init__(tasks=tasks, **kwargs)


class WrongGold(Counter):
    """Half of the solutions overshoot."""

    def solution(self, task: Task) -> Any:
        self.count += self.task.id.endswith("1")
        return super().solution(task)


def write(path: Path, values: dict[str, Any]) -> Path:
    """Write the YAML file of a suite."""
    path.write_text(yaml12.dump(values), encoding="utf-8")
    return path


def counting(path: Path, *, number: int = 3, **entry: Any) -> Path:
    """Write a suite with one entry of the counter, and its pins."""
    write(path, {"name": path.stem, "version": 1, "entries": [{"env": COUNTER, "name": "counter", **entry}]})
    pin_tasks(path, "counter", None, number)
    return path


def load(path: Path, **data: Path) -> Suite:
    return load_suite(path, data)


def tasks_of(suite: Suite, name: str) -> list[Task]:
    entry = suite.entry(name)
    with entry.opened() as env:
        assert isinstance(env, Env)
        return entry.tasks(env)
