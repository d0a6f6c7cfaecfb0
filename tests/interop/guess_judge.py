"""Judges a guessed number; no part of agentgym."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentgym.core.task import Task
from agentgym.tasks.exporting.inside.answers import read_answer


def prepare(task: Task, files: Mapping[str, Any], folder: Path) -> Callable[[Path], Mapping[str, float]]:
    right = str(task.gold["number"])
    return lambda root: {"reward": float(read_answer(root, "/app/guess.txt", 100).strip() == right)}
