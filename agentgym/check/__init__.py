"""The conformance suite: named guarantees that any environment must keep, built-in or third-party.

`agentgym check <id or module:Class>` runs it and prints a table; `run_checks` returns the same results as data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentgym.check import (
    contract,
    gold,
    grading,
    guessing,
    hostile,
    knowledge,
    lifecycle,
    parallel,
    pay,
    seeding,
    speed,
    tasks,
    tools,
    work,
)
from agentgym.check import isolation as process
from agentgym.check.catalog import Check
from agentgym.check.outcomes import CheckFailed, CheckSkipped
from agentgym.check.report import (
    CHECK_TIMEOUT_S,
    CheckResult,
    CheckStatus,
    Report,
    print_report,
    report_json,
    run,
    select,
)

CHECKS: tuple[Check, ...] = (
    *contract.FIRST,
    *process.CHECKS,
    *seeding.CHECKS,
    *contract.CHECKS,
    *tasks.CHECKS,
    *work.CHECKS,
    *guessing.CHECKS,
    *grading.CHECKS,
    *pay.CHECKS,
    *gold.CHECKS,
    *knowledge.CHECKS,
    *tools.CHECKS,
    *hostile.CHECKS,
    *lifecycle.CHECKS,
    *parallel.CHECKS,
    *speed.CHECKS,
)
"""All checks in the order they run: root causes before the failures they cause."""

__all__ = [
    "CHECKS",
    "Check",
    "CheckFailed",
    "CheckResult",
    "CheckSkipped",
    "CheckStatus",
    "Report",
    "check_names",
    "print_report",
    "report_json",
    "run_checks",
]


def check_names() -> tuple[str, ...]:
    """Return the names of all checks, in order."""
    return tuple(check.name for check in CHECKS)


def run_checks(
    target: str,
    kwargs: Mapping[str, Any] | None = None,
    only: Sequence[str] | None = None,
    seed: int = 0,
    timeout_s: float = CHECK_TIMEOUT_S,
    on_row: Callable[[CheckResult], None] | None = None,
) -> Report:
    """Run the conformance suite against an environment.

    Args:
        target: An environment id, its short form, or `"module:Class"`.
        kwargs: Arguments passed to its constructor.
        only: Names of the checks to run; all checks by default.
        seed: Seeds every random choice that the checks make.
        timeout_s: Time limit of each check in seconds, on top of the time its resets and steps take. A check that
            exceeds it is reported as an error, and the remaining checks still run.
        on_row: Called with each result as soon as it is available.

    Raises:
        UsageError: A name in `only` matches no check.
    """
    return run(target, select(CHECKS, only), kwargs, seed, timeout_s, on_row)
