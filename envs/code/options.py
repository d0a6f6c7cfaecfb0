"""From the arguments of `CodeEnv` to tools, limits, a scheme and a task source; what cannot be is told in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentgym.choices import limits_from
from agentgym.errors import UsageError
from agentgym.rewards import OUTCOME, Gate, Scheme
from agentgym.task import TaskSource
from agentgym.task_files import Layout, TaskFiles
from agentgym.tasks.code import CodeTasks
from agentgym.tools.sandbox import Limits

TOOLS = {
    "python": ("python",),
    "bash": ("bash",),
    "files": ("view", "edit", "write"),
    "test": ("test",),
}
"""What may be asked for, and the tools that it stands for."""

FILES = TaskFiles(
    argument="file",
    loader="agentgym.tasks.code_files:CodeFileTasks",
    options={
        "format": "humaneval, mbpp, gsm8k or quixbugs; told by the fields of the entries if not given",
        "split_by": "auto, file (names say train, dev, test), hash, or one split for all: train, validation, test",
    },
    layouts=(
        Layout("MBPP", "mbpp.jsonl, or sanitized-mbpp.json", "file=mbpp.jsonl"),
        Layout("HumanEval", "HumanEval.jsonl", "file=HumanEval.jsonl"),
        Layout("GSM8K", "a folder with train.jsonl and test.jsonl, or one of them", "file=grade_school_math/data"),
        Layout("QuixBugs", "the folder of its repository", "file=QuixBugs"),
    ),
    generated=frozenset({"difficulty", "families", "kinds", "task_seed"}),
)


def task_source(tasks: TaskSource | None, choices: Mapping[str, Any]) -> TaskSource:
    """Return `tasks`, the tasks of the files that `choices` name, or generated ones."""
    if (source := FILES.source(tasks, choices)) is not None:
        return source
    return CodeTasks(**FILES.generator_choices(choices, task_seed="seed"))


def tool_names(wanted: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of the tools that `"python+test"` or a list of such parts stands for; `submit` always."""
    parts = wanted.split("+") if isinstance(wanted, str) else list(wanted)
    parts = [part.strip() for part in parts if part.strip()]
    if unknown := [part for part in parts if part not in TOOLS]:
        raise UsageError(f"unknown tools {unknown[0]!r}; choose from {', '.join(TOOLS)}, joined with '+'")
    return (*(name for part, names in TOOLS.items() if part in parts for name in names), "submit")


def run_limits(limits: Limits | Mapping[str, Any] | None) -> Limits:
    """Return limits that are given whole, by name, or not at all."""
    return Limits(**limits_from(Limits, limits))


def with_cost(scheme: Scheme, cost: float) -> Scheme:
    """Return a scheme in which every call costs that much, in solved episodes only, so that giving up never pays."""
    if cost < 0:
        raise UsageError(f"tool_cost is what a call costs, at least 0, not {cost!r}")
    if not cost:
        return scheme
    gate = Gate(on=OUTCOME, at_least=1.0, opens=("tool_cost",))
    return replace(scheme, weights={**scheme.weights, "tool_cost": -cost}, gates=(*scheme.gates, gate))
