"""Turns the arguments of `SWEEnv` into a task source and limits."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any

from agentgym.base.choices import limits_from, one_of
from agentgym.base.errors import UsageError
from agentgym.core.rewards import OUTCOME, Channel, Gate, Scheme
from agentgym.core.task import TaskSource
from agentgym.core.task_files import Layout, TaskFiles
from agentgym.tasks.swe.bundled import BundledSWETasks
from agentgym.tasks.swe.refactor import RefactorTasks
from agentgym.tools.sandbox import SandboxLimits

WORK_LIMITS = SandboxLimits(wall_s=60.0, cpu_s=60.0, memory_mb=2048, total_memory_mb=3072)
"""Bounds on one run by an agent."""


_BUNDLED = {"bugs": BundledSWETasks, "refactor": RefactorTasks}


FILES = TaskFiles(
    argument="file",
    loader="agentgym.envs.swe.source:InstanceTasks",
    options={
        "format": "name of the format, such as swe-bench; detected from the fields of the rows if not given",
        "repositories": "folder of archives or checkouts to take the files from, instead of images",
        "environments": "folder of Python environments to run the tests in, or one environment for all",
        "split_by": "auto (the split named by the row or the file, else train), or one split: train, validation, test",
    },
    layouts=(
        Layout("SWE-bench", "rows as Parquet or JSON (Lite, Verified, Multilingual), with Docker", "file=test.parquet"),
        Layout(
            "SWE-bench",
            "the same without Docker: repositories and Python environments of your own",
            "file=test.parquet --set repositories=REPOS --set environments=ENVS",
        ),
        Layout("SWE-Gym", "rows, also of SWE-rebench, SWE-smith, R2E-Gym and Multi-SWE-bench", "file=rows.jsonl"),
        Layout("your own", "what `agentgym tasks build swe` writes", "file=DIR/instances.jsonl"),
    ),
    generated=frozenset({"kind"}),
)


def task_source(tasks: TaskSource | None, choices: Mapping[str, Any]) -> TaskSource:
    """Return `tasks`, the instances of the files that `choices` name, or bundled tasks of a kind."""
    if (source := FILES.source(tasks, choices)) is not None:
        return source
    return _BUNDLED[one_of("kind", choices["kind"] or "bugs", tuple(_BUNDLED))]()


def run_limits(limits: SandboxLimits | Mapping[str, Any] | None) -> SandboxLimits:
    """Return limits from a `SandboxLimits`, from its fields by name, or the default ones."""
    return WORK_LIMITS.but(**limits_from(SandboxLimits, limits))


def above_zero(name: str, value: float) -> float:
    """Return `value` if it is more than 0."""
    if not value > 0:
        raise UsageError(f"{name} must be above 0, not {value!r}")
    return value


class Tier(IntEnum):
    """How far an episode got; the value of the channel `tier`."""

    NO_SUBMIT = 0
    EMPTY = 1
    FAILS = 2
    PASSES = 3


_AIMED = 0.5


def aimed(files_f1: float, lines_f1: float, precision: float) -> float:
    """Return the channel `localised` for a change (`Localisation`): 0 for one that changes mostly other places."""
    return (files_f1 + lines_f1) / 2 if precision >= _AIMED else 0.0


CHANNELS = {
    OUTCOME: Channel("1 if the submitted change passes every hidden test"),
    "tier": Channel(
        "0 nothing submitted, 1 an empty change, 2 a change that fails tests, 3 one that passes", high=3.0, cheap=True
    ),
    "unsubmitted": Channel("1 if nothing was submitted", cheap=True),
    "empty": Channel("1 if the submission changes no source file", cheap=True),
    "submitted": Channel("1 if the work was submitted", cheap=True),
    "patched": Channel("1 if the submission changes source files", cheap=True),
    "mended": Channel("share of the failing tests that pass now"),
    "format": Channel("1 if the action parsed and its arguments were valid", per_turn=True, cheap=True),
    "executed": Channel("1 if the call succeeded", per_turn=True, cheap=True),
    "modified": Channel("1 if the repository was changed, submitted or not", cheap=True),
    "tests_run": Channel("1 if tests were run before the work was submitted", cheap=True),
    "localised": Channel(
        "mean F1 of the files and lines changed, against the gold patch; 0 unless half of the lines are near it"
    ),
    "similarity": Channel("similarity of the change to the gold patch (SWE-RL, arXiv 2502.18449)"),
}

LOW = MappingProxyType({"format": 0.05, "executed": 0.05, "tests_run": 0.05, "localised": 0.1, "mended": 0.2})
"""Default weights of the channels behind the gate."""


def g_ra(
    *,
    no_submit: float = 0.0,
    empty: float = 0.0,
    fails: float = 0.15,
    passes: float = 1.15,
    opens_at: Tier = Tier.FAILS,
    strict: bool = False,
    low: Mapping[str, float] = LOW,
    similarity: float = 0.05,
    allow_unsound: bool = False,
) -> Scheme:
    """Return a scheme of four tiers, with gates for the smaller channels.

    Submitting or changing a file takes no work, so a change that fails tests is paid only if it is near the gold patch
    (`localised` above 0), and readable, running calls only in solved episodes.

    Args:
        no_submit: Pay if nothing was submitted, at most 0.
        empty: Pay if the submission changes nothing, at most 0.
        fails: Pay for a change that is near the gold patch and fails tests.
        passes: Pay for a change that passes.
        opens_at: Lowest tier that pays the smaller channels.
        strict: Pay them only above that tier.
        low: Weights of the smaller channels.
        similarity: Weight of the similarity to the gold patch, which counts only if some failing test passes now.
        allow_unsound: Accept tiers that could pay too much for a failed episode, or for one without work.
    """
    weights = {OUTCOME: passes - fails, "unsubmitted": no_submit, "empty": empty, "patched": fails, **low}
    calls = tuple(name for name in low if CHANNELS[name].per_turn)
    gates = [
        # First, because `localised` may be among the smaller channels, and then be 0 behind the gate of these.
        Gate(on="localised", at_least=0.0, opens=("patched", "tests_run"), strict=True),
        Gate(on="tier", at_least=float(opens_at), opens=tuple(low), strict=strict),
        Gate(on=OUTCOME, at_least=1.0, opens=calls),
    ]
    if similarity:
        weights["similarity"] = similarity
        gates.append(Gate(on="mended", at_least=0.0, opens=("similarity",), strict=True))
    ways = frozenset({"localised", "tests_run", "similarity"} & weights.keys())
    return Scheme(weights, tuple(gates), frozenset(calls), in_full=ways, allow_unsound=allow_unsound)
