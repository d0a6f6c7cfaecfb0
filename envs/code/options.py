"""Turns the arguments of `CodeEnv` into tools, limits, a scheme and a task source. Reports wrong arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentgym.base.choices import limits_from
from agentgym.base.errors import UsageError
from agentgym.core.engine.authoring import EnvArguments
from agentgym.core.rewards import OUTCOME, Channel, Gate, Scheme
from agentgym.core.task import TaskSource
from agentgym.core.task_files import Layout, TaskFiles
from agentgym.tasks.code import CodeTasks
from agentgym.tools.sandbox import SandboxLimits

TOOLS = {
    "python": ("python",),
    "bash": ("bash",),
    "files": ("view", "edit", "write"),
    "test": ("test",),
}
"""Names of tool groups, and the tools in each."""

FILES = TaskFiles(
    argument="file",
    loader="agentgym.tasks.code.files:CodeFileTasks",
    options={
        "format": "humaneval, mbpp, gsm8k or quixbugs; detected from the fields of the entries if not given",
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


class CodeArguments(EnvArguments, total=False):
    """The choices of tasks that `CodeEnv` takes, and the arguments of every environment."""

    difficulty: int | Sequence[int] | None
    families: Sequence[str] | None
    kinds: Sequence[str] | None
    task_seed: int | None
    file: str | Path | None
    format: str | None
    split_by: str | None
    strict: bool


def task_source(tasks: TaskSource | None, choices: Mapping[str, Any]) -> TaskSource:
    """Return `tasks`, the tasks of the files that `choices` name, or generated ones."""
    if (source := FILES.source(tasks, choices)) is not None:
        return source
    return CodeTasks(**FILES.generator_choices(choices, task_seed="seed"))


def tool_names(groups: str | Sequence[str]) -> tuple[str, ...]:
    """Return the tools of the groups in `"python+test"`, or in a list of groups, and always `submit`."""
    parts = groups.split("+") if isinstance(groups, str) else list(groups)
    parts = [part.strip() for part in parts if part.strip()]
    if unknown := [part for part in parts if part not in TOOLS]:
        raise UsageError(f"unknown tools {unknown[0]!r}; choose from {', '.join(TOOLS)}, joined with '+'")
    return (*(name for part, names in TOOLS.items() if part in parts for name in names), "submit")


def run_limits(limits: SandboxLimits | Mapping[str, Any] | None) -> SandboxLimits:
    """Return limits from a `SandboxLimits`, from its fields by name, or the default ones."""
    return SandboxLimits(**limits_from(SandboxLimits, limits))


def with_cost(scheme: Scheme, cost: float) -> Scheme:
    """Return the scheme with a cost per call, charged to solved episodes only, so that giving up never pays."""
    if cost < 0:
        raise UsageError(f"tool_cost must be at least 0, not {cost!r}")
    if not cost:
        return scheme
    gate = Gate(on=OUTCOME, at_least=1.0, opens=("tool_cost",))
    return replace(scheme, weights={**scheme.weights, "tool_cost": -cost}, gates=(*scheme.gates, gate))


MAX_REFUSED = 3
"""Submissions of an episode that may fail to load; the last of them counts as a wrong answer."""

CHANNELS = {
    OUTCOME: Channel("1 if the submitted answer is right"),
    "format": Channel("1 if the action parsed and its arguments were valid", per_turn=True, cheap=True),
    "ran": Channel("1 if the call, and the code in it, ran without an error", per_turn=True, cheap=True),
    "visible": Channel("share of the examples that the submitted answer gets right"),
    "hidden": Channel("share of the hidden tests that the submitted answer passes"),
    "progress": Channel(
        "share of the hidden tests passed, less those that a constant, a returned argument or the code to repair passes"
    ),
    "worked": Channel("1 when code first printed something without an error, or passed an example"),
    "submitted": Channel("1 if an answer was submitted", cheap=True),
    "used_code": Channel("1 if code was run before the answer", cheap=True),
    "refused": Channel("1 for a submission that does not load", per_turn=True, per_call=True),
    "tool_cost": Channel("1 for a call before the answer", per_turn=True, per_call=True),
}

GATED = Scheme(
    weights={
        OUTCOME: 1.0,
        "format": 0.05,
        "ran": 0.05,
        "worked": 0.05,
        "visible": 0.1,
        "progress": 0.2,
        "refused": -0.05,
    },
    gates=(
        Gate(on="submitted", at_least=1.0, opens=("worked", "visible", "progress")),
        # The examples are in the prompt: copying them earns nothing by itself.
        Gate(on="progress", at_least=0.0, strict=True, opens=("visible",)),
        # If calls cost something in failed episodes, giving up would pay.
        Gate(on=OUTCOME, at_least=1.0, opens=("format", "ran", "refused")),
    ),
    averaged=frozenset({"format", "ran"}),
    capped={"refused": MAX_REFUSED - 1.0},
    in_full=frozenset({"worked"}),
)
"""Partial work is paid once an answer is submitted; readable calls that run are paid only if the task is solved."""
