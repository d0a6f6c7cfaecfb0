"""Which tests of a package can be relied on: those that pass whatever may be otherwise from one run to the next.

A task's tests must say the same of the same code in every process, on busy machines, and next to altered copies of
themselves, which graders plant against cheating.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from agentgym.tasks.swe.build_runner import Conditions, TestOutcome

MAX_SUITE_S = 30.0
"""A package's tests should not compute longer, so that a slower machine has the time for them as well."""
DISTURBED = (
    Conditions(hash_seed=1, backwards=True, leap=1),
    Conditions(hash_seed=2, leap=2),
    Conditions(hash_seed=3, backwards=True, leap=3),
    Conditions(hash_seed=4, leap=0),
)
"""What every test has to stand, after two runs of the usual kind; the clocks begin with each of their leaps once."""
_NOT_FOUND = re.compile(r"No module named '([\w.]+)'")


class Unfit(StrEnum):
    """Why a test is of no use."""

    FAILS = "does not pass"
    UNSTEADY = "does not pass every time"
    RENAMED = "has other names, or another order of them, in another process"
    DISTURBED = "does not pass in another order, with other hashes or with other clocks"
    WRITES = "writes into the repository"
    SLOW = "takes too long"


def unfit_tests(first: TestOutcome, second: TestOutcome, others: Sequence[TestOutcome]) -> dict[str, Unfit]:
    """Return the tests of no use, each with the first reason found.

    Args:
        first: A run with `trace`.
        second: The same again, without it.
        others: Runs under the conditions `DISTURBED`.
    """
    renamed = set(_renamed(first, [second, *others]))
    found: dict[str, Unfit] = {}
    for test, status in first.statuses.items():
        if status != "passed" and second.statuses.get(test) == status:
            found[test] = Unfit.FAILS
        elif function_of(test) in renamed:
            found[test] = Unfit.RENAMED
        elif status != "passed" or test not in second.passing:
            found[test] = Unfit.UNSTEADY
        elif any(test not in other.passing for other in others):
            found[test] = Unfit.DISTURBED
        elif test in first.wrote:
            found[test] = Unfit.WRITES
    return found | dict.fromkeys(_slow(second, [test for test in first.statuses if test not in found]), Unfit.SLOW)


def missing_modules(detail: str) -> tuple[str, ...]:
    """Return the modules that a run says it did not find."""
    return tuple(sorted(set(_NOT_FOUND.findall(detail))))


def function_of(test: str) -> str:
    """Return a test's id without its parameters."""
    return test.partition("[")[0]


def _renamed(usual: TestOutcome, runs: Sequence[TestOutcome]) -> Iterator[str]:
    """Yield test functions whose parameters differ between runs: what one id stands for is then left to chance."""
    known = _cases(usual)
    for run in runs:
        cases = _cases(run)
        for name in known.keys() | cases.keys() if run.error is None else ():
            if cases.get(name) not in (known.get(name), known.get(name, [])[::-1]):
                yield name


def _cases(run: TestOutcome) -> dict[str, list[str]]:
    """Return the ids of each test function in the order of their run."""
    cases: dict[str, list[str]] = {}
    for test in run.statuses:
        cases.setdefault(function_of(test), []).append(test)
    return cases


def _slow(run: TestOutcome, tests: Sequence[str]) -> list[str]:
    """Return the slowest tests, without which the others stay within the time for all."""
    total = sum(run.durations.get(test, 0.0) for test in tests)
    slow = []
    for test in sorted(tests, key=lambda test: (-run.durations.get(test, 0.0), test)):
        if total <= MAX_SUITE_S:
            break
        slow.append(test)
        total -= run.durations.get(test, 0.0)
    return slow
