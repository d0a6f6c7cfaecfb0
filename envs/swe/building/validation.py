"""Decides which changes of a package make a task: the baseline of its tests, and the verdict on a changed tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

from agentgym.base.errors import UsageError
from agentgym.envs.swe.building.runner import USUAL, Conditions, RunError, TestOutcome, TestRunner
from agentgym.envs.swe.building.steady import DISTURBED, Unfit, missing_modules, unfit_tests
from agentgym.tasks.swe.instance import file_of
from agentgym.tasks.swe.package import Package

MAX_SHARE = 0.3
"""A bug that breaks more than this share of the tests is too obvious for a task."""
OTHER_HASHES = Conditions(hash_seed=len(DISTURBED) + 1)
"""A bug must break the same tests under these conditions."""
_QUICK_S = 3.0
"""A suite that takes less time runs as a whole."""


class CandidateVerdict(StrEnum):
    """The verdict on a candidate."""

    VALID = "valid"
    NO_TEST_FAILS = "no test fails"
    TOO_BROAD = "too broad"
    BREAKS_COLLECTION = "breaks collection"
    TIMEOUT = "timeout"
    CRASH = "crash"
    FLAKY = "flaky"
    DUPLICATE = "duplicate"
    NOT_GRADABLE = "not gradable"
    """In grading, the tests do not distinguish the solution from the bug."""


@dataclass(frozen=True)
class Baseline:
    """The results of a package's tests before any change."""

    passing: tuple[str, ...]
    """Tests that passed every time."""
    dropped: Mapping[str, Unfit]
    """The other tests, and why they are unusable."""
    covering: Mapping[tuple[str, str], tuple[str, ...]]
    """(path, qualified name) of a function to the tests that ran it; empty if the runner does not report it."""
    duration_s: float
    missing_modules: tuple[str, ...] = ()
    """Modules that tests could not import."""

    @property
    def limit(self) -> int:
        """Limit on the number of tests that a bug may break."""
        return max(1, int(MAX_SHARE * len(self.passing)))

    def tests_for(self, places: Collection[tuple[str, str]]) -> tuple[str, ...]:
        """Return the stable tests that run one of the functions; all tests if that is unknown."""
        if not self.covering or any(not function for _, function in places):
            return self.passing
        covering_tests = {test for place in places for test in self.covering.get(place, ())}
        return tuple(test for test in self.passing if test in covering_tests or "" in covering_tests)

    @property
    def files(self) -> tuple[str, ...]:
        """The test files that hold stable tests."""
        return tuple(dict.fromkeys(file_of(test) for test in self.passing))


@dataclass(frozen=True)
class Validation:
    """The verdict on one changed tree, with the evidence."""

    verdict: CandidateVerdict
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    outcome: TestOutcome | None = None


def measure_baseline(package: Package, run_tests: TestRunner, *, timeout_s: float = 300.0) -> Baseline:
    """Run a package's tests repeatedly and keep the reliable ones.

    Raises:
        UsageError: No test is reliable.
    """
    first = run_tests(
        package.files, package.test_files, python_path=package.python_path, timeout_s=timeout_s, trace=True
    )
    if first.error is RunError.TIMEOUT:
        raise UsageError(f"the tests of {package.name!r} take more than {timeout_s:g} s")
    lacking = missing_modules(first.detail)
    files = [path for path in package.test_files if any(file_of(test) == path for test in first.statuses)]
    if not files:
        hint = f"missing modules: {', '.join(lacking)}; " if lacking else ""
        raise UsageError(f"no test of {package.name!r} can be run: {hint}{first.detail[-500:]}")

    def again(conditions: Conditions) -> TestOutcome:
        return run_tests(
            package.files, files, python_path=package.python_path, timeout_s=timeout_s, conditions=conditions
        )

    second = again(USUAL)
    # In parallel, so that they disturb each other.
    with ThreadPoolExecutor(len(DISTURBED)) as pool:
        others = list(pool.map(again, DISTURBED))
    unfit = unfit_tests(first, second, others)
    passing = tuple(test for test in first.statuses if test not in unfit)
    if not passing:
        raise UsageError(f"no test of {package.name!r} is reliable: {dict(list(unfit.items())[:5])}")
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
    """Return whether a changed tree makes a task.

    Args:
        package: The original package.
        tree: Its files with the bug.
        places: (path, qualified name) of the functions that were changed.
        baseline: The baseline of the original package.
        run_tests: Runs its tests.
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
        if verdict is not CandidateVerdict.VALID:
            return Validation(verdict, outcome=part)
    outcome = run(ordered)
    verdict = _judge(outcome, baseline)
    if verdict is not CandidateVerdict.VALID:
        return Validation(verdict, outcome=outcome)
    failing = _broken(outcome, baseline)
    decisive = tuple(dict.fromkeys(map(file_of, failing)))
    again = run([path for path in ordered if path in decisive], OTHER_HASHES)
    if _judge(again, baseline, only=decisive) is not CandidateVerdict.VALID or _broken(again, baseline) != failing:
        return Validation(CandidateVerdict.FLAKY, outcome=outcome)
    return Validation(
        CandidateVerdict.VALID,
        fail_to_pass=tuple(test for test in baseline.passing if test in failing),
        pass_to_pass=tuple(test for test in baseline.passing if test not in failing),
        outcome=outcome,
    )


def _relevant_first(baseline: Baseline, places: Collection[tuple[str, str]]) -> tuple[str, ...]:
    counts = Counter(file_of(test) for test in baseline.tests_for(places))
    return tuple(sorted(baseline.files, key=lambda path: (-counts[path], path)))


def _broken(outcome: TestOutcome, baseline: Baseline) -> frozenset[str]:
    return frozenset(baseline.passing) & outcome.failing


def _judge(outcome: TestOutcome, baseline: Baseline, only: Collection[str] | None = None) -> CandidateVerdict:
    if outcome.error is RunError.TIMEOUT:
        return CandidateVerdict.TIMEOUT
    if outcome.error is RunError.CRASH:
        return CandidateVerdict.CRASH
    broken = _broken(outcome, baseline)
    if len(broken) > baseline.limit:
        return CandidateVerdict.TOO_BROAD
    expected = [test for test in baseline.passing if only is None or file_of(test) in only]
    if outcome.error is RunError.COLLECTION or any(test not in outcome.statuses for test in expected):
        return CandidateVerdict.BREAKS_COLLECTION
    if any(outcome.statuses[test] not in ("passed", "failed", "error") for test in expected):
        return CandidateVerdict.FLAKY
    return CandidateVerdict.VALID if broken else CandidateVerdict.NO_TEST_FAILS
