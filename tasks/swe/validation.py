"""Which changes of a package make a task: the baseline of its tests, and the verdict on one changed tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

from agentgym.errors import UsageError
from agentgym.tasks.swe.build_runner import USUAL, Conditions, RunError, TestOutcome, TestRunner
from agentgym.tasks.swe.build_source import Package
from agentgym.tasks.swe.build_steady import DISTURBED, Unfit, missing_modules, unfit_tests

MAX_SHARE = 0.3
"""A bug that breaks more than this share of the tests is too plain to be a task."""
OTHER_HASHES = Conditions(hash_seed=len(DISTURBED) + 1)
"""A bug must break the same tests here."""
_QUICK_S = 3.0
"""A suite that takes less is not worth running in two parts."""


class Verdict(StrEnum):
    """What came of a candidate."""

    VALID = "valid"
    NO_TEST_FAILS = "no test fails"
    TOO_BROAD = "too broad"
    BREAKS_COLLECTION = "breaks collection"
    TIMEOUT = "timeout"
    CRASH = "crash"
    FLAKY = "flaky"
    DUPLICATE = "duplicate"
    NOT_GRADABLE = "not gradable"
    """The tests do not tell its solution from the bug once they are run as at grading."""


@dataclass(frozen=True)
class Baseline:
    """What a package's tests do before anything is changed."""

    passing: tuple[str, ...]
    """Tests that passed every time."""
    dropped: Mapping[str, Unfit]
    """The other tests, and why they are of no use."""
    covering: Mapping[tuple[str, str], tuple[str, ...]]
    """(path, qualified name) of a function to the tests that ran it; empty if the runner cannot tell."""
    duration_s: float
    missing_modules: tuple[str, ...] = ()
    """Modules that tests could not import."""

    @property
    def limit(self) -> int:
        """How many tests a bug may break."""
        return max(1, int(MAX_SHARE * len(self.passing)))

    def tests_for(self, places: Collection[tuple[str, str]]) -> tuple[str, ...]:
        """Return the stable tests that run one of the functions; all where that is not known."""
        if not self.covering or any(not function for _, function in places):
            return self.passing
        found = {test for place in places for test in self.covering.get(place, ())}
        return tuple(test for test in self.passing if test in found or "" in found)

    @property
    def files(self) -> tuple[str, ...]:
        """The test files that hold stable tests."""
        return tuple(dict.fromkeys(file_of(test) for test in self.passing))


@dataclass(frozen=True)
class Validation:
    """The verdict on one changed tree, with the evidence."""

    verdict: Verdict
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    outcome: TestOutcome | None = None


def file_of(test: str) -> str:
    """Return the path in a pytest node id."""
    return test.partition("::")[0]


def measure_baseline(package: Package, run_tests: TestRunner, *, timeout_s: float = 300.0) -> Baseline:
    """Run a package's tests again and again and keep those that can be relied on.

    Raises:
        UsageError: There is no such test.
    """
    first = run_tests(
        package.files, package.test_files, python_path=package.python_path, timeout_s=timeout_s, trace=True
    )
    if first.error is RunError.TIMEOUT:
        raise UsageError(f"the tests of {package.name!r} take more than {timeout_s:g} s")
    lacking = missing_modules(first.detail)
    files = [path for path in package.test_files if any(file_of(test) == path for test in first.statuses)]
    if not files:
        told = f"modules that were not found: {', '.join(lacking)}; " if lacking else ""
        raise UsageError(f"no test of {package.name!r} can be run: {told}{first.detail[-500:]}")

    def again(conditions: Conditions) -> TestOutcome:
        return run_tests(
            package.files, files, python_path=package.python_path, timeout_s=timeout_s, conditions=conditions
        )

    second = again(USUAL)
    # All at once, so that they disturb each other.
    with ThreadPoolExecutor(len(DISTURBED)) as pool:
        others = list(pool.map(again, DISTURBED))
    unfit = unfit_tests(first, second, others)
    passing = tuple(test for test in first.statuses if test not in unfit)
    if not passing:
        raise UsageError(f"no test of {package.name!r} can be relied on: {dict(list(unfit.items())[:5])}")
    return Baseline(passing, unfit, _covering(first, unfit), second.duration_s, lacking)


def _covering(first: TestOutcome, unfit: Collection[str]) -> dict[tuple[str, str], tuple[str, ...]]:
    covering: dict[tuple[str, str], list[str]] = {}
    for test, places in sorted(first.ran.items()):
        if test not in unfit:
            for place in places:
                covering.setdefault(place, []).append(test)
    return {place: tuple(tests) for place, tests in covering.items()}


def validate(
    package: Package,
    tree: Mapping[str, bytes],
    places: Collection[tuple[str, str]],
    baseline: Baseline,
    run_tests: TestRunner,
) -> Validation:
    """Find out whether a changed tree makes a task.

    Args:
        package: The package as it was.
        tree: Its files with the bug.
        places: (path, qualified name) of the functions that were changed.
        baseline: Of the package as it was.
        run_tests: Runs them.
    """
    ordered = _relevant_first(baseline, places)
    timeout_s = 5 * baseline.duration_s + 10
    stop_after = baseline.limit + 1 + len(baseline.dropped)

    def run(files: Sequence[str], conditions: Conditions = USUAL) -> TestOutcome:
        return run_tests(
            tree,
            files,
            python_path=package.python_path,
            timeout_s=timeout_s,
            max_failures=stop_after,
            conditions=conditions,
        )

    relevant = tuple(dict.fromkeys(file_of(test) for test in baseline.tests_for(places)))
    if baseline.duration_s > _QUICK_S and len(relevant) < len(ordered):
        part = run(relevant)
        verdict = _judge(part, baseline, only=relevant)
        if verdict is not Verdict.VALID:
            return Validation(verdict, outcome=part)
    outcome = run(ordered)
    verdict = _judge(outcome, baseline)
    if verdict is not Verdict.VALID:
        return Validation(verdict, outcome=outcome)
    failing = _broken(outcome, baseline)
    decisive = tuple(dict.fromkeys(map(file_of, failing)))
    again = run([path for path in ordered if path in decisive], OTHER_HASHES)
    if _judge(again, baseline, only=decisive) is not Verdict.VALID or _broken(again, baseline) != failing:
        return Validation(Verdict.FLAKY, outcome=outcome)
    return Validation(
        Verdict.VALID,
        fail_to_pass=tuple(test for test in baseline.passing if test in failing),
        pass_to_pass=tuple(test for test in baseline.passing if test not in failing),
        outcome=outcome,
    )


def _relevant_first(baseline: Baseline, places: Collection[tuple[str, str]]) -> tuple[str, ...]:
    counts = Counter(file_of(test) for test in baseline.tests_for(places))
    return tuple(sorted(baseline.files, key=lambda path: (-counts[path], path)))


def _broken(outcome: TestOutcome, baseline: Baseline) -> frozenset[str]:
    return frozenset(baseline.passing) & outcome.failing


def _judge(outcome: TestOutcome, baseline: Baseline, only: Collection[str] | None = None) -> Verdict:
    if outcome.error is RunError.TIMEOUT:
        return Verdict.TIMEOUT
    if outcome.error is RunError.CRASH:
        return Verdict.CRASH
    broken = _broken(outcome, baseline)
    if len(broken) > baseline.limit:
        return Verdict.TOO_BROAD
    expected = [test for test in baseline.passing if only is None or file_of(test) in only]
    if outcome.error is RunError.COLLECTION or any(test not in outcome.statuses for test in expected):
        return Verdict.BREAKS_COLLECTION
    if any(outcome.statuses[test] not in ("passed", "failed", "error") for test in expected):
        return Verdict.FLAKY
    return Verdict.VALID if broken else Verdict.NO_TEST_FAILS
