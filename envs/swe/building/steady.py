"""Finds the reliable tests of a package: those that pass under all conditions that may vary between runs.

A task's tests must give the same result for the same code in every process, on busy machines, and in the presence of
altered tests, which graders use against cheating.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from agentgym.envs.swe.building.runner import Conditions, TestOutcome

MAX_SUITE_S = 30.0
"""Limit on the processor time of a package's tests, so that slower machines can run them as well."""
DISTURBED = (
    Conditions(hash_seed=1, backwards=True, leap=1),
    Conditions(hash_seed=2, leap=2),
    Conditions(hash_seed=3, backwards=True, leap=3),
    Conditions(hash_seed=4, leap=0),
)
"""Conditions that every test must survive, after two usual runs; each jump of the clocks comes first once."""
_NOT_FOUND = re.compile(r"No module named '([\w.]+)'")


class Unfit(StrEnum):
    """Why a test is unusable."""

    FAILS = "does not pass"
    UNSTEADY = "does not pass every time"
    RENAMED = "has other names, or another order of them, in another process"
    DISTURBED = "does not pass in another order, with other hashes or with other clocks"
    WRITES = "writes into the repository"
    SLOW = "takes too long"


def unfit_tests(first: TestOutcome, second: TestOutcome, others: Sequence[TestOutcome]) -> dict[str, Unfit]:
    """Return the unusable tests, each with the first reason found.

    Args:
        first: A run with `trace`.
        second: The same again, without it.
        others: Runs under the conditions `DISTURBED`.
    """
    renamed = set(_renamed(first, [second, *others]))
    unfit: dict[str, Unfit] = {}
    for test, status in first.statuses.items():
        if status != "passed" and second.statuses.get(test) == status:
            unfit[test] = Unfit.FAILS
        elif function_of(test) in renamed:
            unfit[test] = Unfit.RENAMED
        elif status != "passed" or test not in second.passing:
            unfit[test] = Unfit.UNSTEADY
        elif any(test not in other.passing for other in others):
            unfit[test] = Unfit.DISTURBED
        elif test in first.wrote:
            unfit[test] = Unfit.WRITES
    return unfit | dict.fromkeys(_slow(second, [test for test in first.statuses if test not in unfit]), Unfit.SLOW)


def missing_modules(detail: str) -> tuple[str, ...]:
    """Return the modules that a run reports as missing."""
    return tuple(sorted(set(_NOT_FOUND.findall(detail))))


def function_of(test: str) -> str:
    """Return a test's id without its parameters."""
    return test.partition("[")[0]


def _renamed(usual: TestOutcome, runs: Sequence[TestOutcome]) -> Iterator[str]:
    """Yield test functions whose parameters differ between runs: the meaning of an id is then random."""
    usual_cases = _cases(usual)
    for run in runs:
        cases = _cases(run)
        for name in usual_cases.keys() | cases.keys() if run.error is None else ():
            if cases.get(name) not in (usual_cases.get(name), usual_cases.get(name, [])[::-1]):
                yield name


def _cases(run: TestOutcome) -> dict[str, list[str]]:
    """Return the ids of each test function in the order of their run."""
    cases: dict[str, list[str]] = {}
    for test in run.statuses:
        cases.setdefault(function_of(test), []).append(test)
    return cases


def _slow(run: TestOutcome, tests: Sequence[str]) -> list[str]:
    """Return the slowest tests, without which the others stay within the time limit."""
    total = sum(run.durations.get(test, 0.0) for test in tests)
    slow = []
    for test in sorted(tests, key=lambda test: (-run.durations.get(test, 0.0), test)):
        if total <= MAX_SUITE_S:
            break
        slow.append(test)
        total -= run.durations.get(test, 0.0)
    return slow
