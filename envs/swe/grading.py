"""The verdict on an agent's work: its changes on a pristine tree, in fresh sandboxes, with the tests restored.

The agent's own sandbox is only ever read from. The files that `filtering` lets through are graded by exact test ids,
and the results must be credible. Each test that decides runs in several processes, which do not know its form: in its
true form it must pass, and in a changed form it must fail where correct code fails. Where its expected values are
withheld, the code under test must produce them by itself. That process comes first, and no other process of the same
task runs beside it.
"""

from __future__ import annotations

import fcntl
import random
import secrets
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf

from agentgym.base.cache import cache_folder
from agentgym.envs.swe import by_log
from agentgym.envs.swe.calibration import Calibration, calibrated
from agentgym.envs.swe.draws import draw
from agentgym.envs.swe.filtering import FilteredTree, filtered
from agentgym.envs.swe.forms import ChangedForm
from agentgym.envs.swe.judge import (
    PASSING,
    ChangedTestResult,
    HiddenTests,
    Manner,
    Process,
    TestRun,
    run_hidden,
    stubbed,
)
from agentgym.envs.swe.repository import Repository, files_of
from agentgym.envs.swe.sandboxes import Sandboxes, put_tree
from agentgym.tasks.swe.pytest_folder import pytest_folder
from agentgym.tasks.swe.refactor.checks import CHECKS, evaluate
from agentgym.tools.patches import diff_trees


@dataclass(frozen=True)
class SWEVerdict:
    """The verdict on an agent's work."""

    passed: bool = False
    """Every required test passes, nothing else is broken, nothing was tampered with."""
    mended: float = 0.0
    """Share of the tests that failed before and pass now."""
    broken: int = 0
    """Tests that passed before and do not now."""
    changed: tuple[str, ...] = ()
    """Files whose change was graded."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Files whose change was dropped, and why."""
    patch: str = ""
    """The graded changes, as a patch."""
    tampered: tuple[str, ...] = ()
    """Signs of tampering with the tests; any one makes the work worth nothing."""
    error: str = ""
    """Why the tests did not finish."""
    unmet: tuple[str, ...] = ()
    """Checks of the shape of the code that do not hold, and why (refactoring tasks)."""
    manner: str = ""
    """How the tests entered the sandbox."""
    changed_tests: int = 0
    """How often a test was run in a form other than its true one."""
    unchanged: tuple[str, ...] = ()
    """Tests that decide and have no changed form that correct code fails: only their true form was run."""


PARALLEL = 2
"""Processes of one grading that run concurrently."""
PROCESS_S, PATIENCE = 20.0, 10.0
"""Time limit of a process: this many seconds, or this many times what the gold solution takes, if that is longer."""
PROCESSES_AT_LIMIT = 3
"""Number of such time limits that a whole grading may take."""
_LEAST_S = 0.1
"""Time for a process after the deadline, which it misses."""


class SWEGrader:
    """Grades work on instances, each process of tests in a fresh sandbox."""

    def __init__(self, sandboxes: Sandboxes):
        self._sandboxes = sandboxes

    def grade(self, repository: Repository, worked: Mapping[str, bytes]) -> SWEVerdict:
        """Return the verdict on what an agent left in its workspace."""
        return self.judge(repository, filtered(repository.files, worked, repository.gold_paths))

    def judge(self, repository: Repository, changes: FilteredTree) -> SWEVerdict:
        """Return the verdict on the changes that count."""
        if not changes.changed:
            return SWEVerdict(dropped=changes.dropped)
        tree = repository.to_grade(changes.tree)
        if repository.instance.python is not None:
            repository = by_log.as_on_gold(repository, partial(self._run_by_log, repository))
        if repository.in_image is not None:
            return _verdict(repository, changes, Evidence([self._run_by_log(repository, tree)]), by_log.MANNER)
        calibration = self.calibrate(repository)
        evidence = self.examine(repository, tree, calibration)
        return _verdict(repository, changes, evidence, calibration.manner.value, calibration)

    def calibrate(self, repository: Repository) -> Calibration:
        """Return how the instance is graded, as measured on its gold solution."""

        def run(tree: Mapping[str, bytes], processes: Sequence[Process], wall_s: float = inf) -> Sequence[TestRun]:
            return self._run_all(repository, repository.to_grade(tree), processes, wall_s)

        return calibrated(repository, run)

    def run(
        self,
        repository: Repository,
        tree: Mapping[str, bytes],
        hidden: HiddenTests,
        forms: Collection[ChangedForm],
        manner: Manner,
        wall_s: float = inf,
    ) -> TestRun:
        """Run hidden tests on a tree in a fresh sandbox, for at most `wall_s` seconds."""
        with self._sandboxes.open(repository.instance, sealed=True) as sandbox:
            put_tree(sandbox, stubbed(tree, hidden, manner))
            limits = self._sandboxes.test_limits
            limits = limits.but(wall_s=max(_LEAST_S, min(wall_s, limits.wall_s)))
            return run_hidden(
                sandbox, hidden, pytest=str(pytest_folder()), forms=forms, manner=manner, limits=limits
            )  # fmt: skip

    def examine(
        self,
        repository: Repository,
        tree: Mapping[str, bytes],
        calibration: Calibration,
        *,
        to_the_end: bool = False,
    ) -> Evidence:
        """Run the hidden tests on a tree in as many processes as the verdict needs, within one deadline.

        Args:
            repository: The instance.
            tree: The files to grade, with the tests restored.
            calibration: The calibration of the instance.
            to_the_end: Run all processes even if the verdict is already known: the work mends no test that decides, or
                something was tampered with.
        """
        hidden, instance = repository.hidden, repository.instance
        # Forms must be unpredictable, so they come from the operating system, not from the episode's seed.
        rng = random.Random(secrets.token_bytes(16))
        blind, others = draw(hidden, instance.fail_to_pass, calibration, rng)
        # Processes that run at the same time could compare their tests, which helps only without a blind process.
        parallel = PARALLEL if calibration.withholds_all(instance.fail_to_pass) else 1
        batches = [] if blind is None else [[blind]]
        batches += [others[start : start + parallel] for start in range(0, len(others), parallel)]
        process_s = max(PROCESS_S, PATIENCE * calibration.seconds)
        left_s = PROCESSES_AT_LIMIT * process_s
        evidence = Evidence([])
        for batch in batches:
            processes = [(process.hidden, process.forms, calibration.manner) for process in batch]
            with _turn(repository.key, alone=len(batch) == 1):
                began = time.monotonic()
                evidence.runs += self._run_all(repository, tree, processes, min(process_s, left_s))
                left_s -= time.monotonic() - began
            refuted = all(map(evidence.is_refuted, instance.fail_to_pass))
            if not to_the_end and (refuted or evidence.error or evidence.signs()):
                return evidence
        evidence.complete = True
        lost = [test for test in instance.pass_to_pass if test not in calibration.excused and evidence.fails(test)]
        if lost and not evidence.signs():
            # A changed test may have disturbed them. The deciding tests need no second run.
            own = hidden.within(files_of(lost))
            with _turn(repository.key, alone=False):
                alone = self.run(repository, tree, own, (), calibration.manner, min(process_s, left_s))
            evidence.alone = dict.fromkeys(alone.passed(lost), PASSING)
            evidence.runs.append(TestRun({}, tampered=alone.tampered, error=alone.error))
        return evidence

    def _run_all(
        self, repository: Repository, tree: Mapping[str, bytes], processes: Sequence[Process], wall_s: float = inf
    ) -> list[TestRun]:
        with ThreadPoolExecutor(PARALLEL) as pool:
            return list(pool.map(lambda process: self.run(repository, tree, *process, wall_s=wall_s), processes))

    def _run_by_log(self, repository: Repository, tree: Mapping[str, bytes]) -> TestRun:
        with self._sandboxes.open(repository.instance) as sandbox:
            put_tree(sandbox, tree, there=repository.in_image)
            return by_log.run_by_log(sandbox, repository, self._sandboxes.test_limits)


@contextmanager
def _turn(key: str, *, alone: bool) -> Iterator[None]:
    """Wait for the processes of other gradings of the same instance: for all if `alone`, else for those that are alone.

    Otherwise, one grading could send expected values to another. Gradings that share a cache folder wait for each
    other.
    """
    path = cache_folder() / "swe" / "turns" / f"{key[:32]}.lock"
    with ExitStack() as stack:
        with suppress(OSError):  # a cache that cannot be written is no reason to stop
            path.parent.mkdir(parents=True, exist_ok=True)
            fcntl.flock(stack.enter_context(path.open("a")), fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


@dataclass
class Evidence:
    """Evidence about a piece of work, from several processes."""

    runs: list[TestRun]
    complete: bool = False
    """Whether all tests were run."""
    alone: Mapping[str, str] = field(default_factory=dict)
    """Tests that passed when no test was in a changed form."""

    @property
    def error(self) -> str:
        """Why some process did not finish, if one did not."""
        return next((run.error for run in self.runs if run.error), "")

    def statuses(self, test: str) -> list[str]:
        """Return the statuses of a test in its true form."""
        return [run.statuses[test] for run in self.runs if test in run.statuses]

    def changed(self, test: str) -> list[ChangedTestResult]:
        """Return the results of a test in other forms."""
        return [run.changed[test] for run in self.runs if test in run.changed]

    def fails(self, test: str) -> bool:
        """Whether a test is missing, or did not pass in its true form."""
        statuses = self.statuses(test)
        return test not in self.alone and (not statuses or any(status != PASSING for status in statuses))

    def is_refuted(self, test: str) -> bool:
        """Whether a test failed where it passes or fails elsewhere on correct code.

        A test that passes where it should not proves nothing yet: it may have been tampered with, which `signs` shows
        once its true form has run.
        """
        failed = any(status != PASSING for status in self.statuses(test))
        return failed or any(result.status != PASSING and not result.as_on_gold for result in self.changed(test))

    def convinces(self, test: str) -> bool:
        """Whether a test passed in its true form every time, and in other forms behaved as on correct code."""
        return not self.fails(test) and all(result.as_on_gold for result in self.changed(test))

    def signs(self) -> list[str]:
        """Return the signs of tampering.

        A changed test that passes is a sign only if it contradicts a true one that passes too: wrong code may do what
        correct code does not.
        """
        signs = [sign for run in self.runs for sign in run.tampered]
        passed = [
            (test, result) for run in self.runs for test, result in run.changed.items() if result.status == PASSING
        ]
        changed = {test: result for test, result in passed if result.form.contradicts}
        signs += [f"{test} passed where correct code fails it" for test in changed if not self.fails(test)]
        return list(dict.fromkeys(signs))


def _verdict(
    repository: Repository,
    changes: FilteredTree,
    evidence: Evidence,
    manner: str,
    calibration: Calibration | None = None,
) -> SWEVerdict:
    instance = repository.instance
    excused = calibration.excused if calibration else ()
    mended = sum(map(evidence.convinces, instance.fail_to_pass))
    required = [test for test in instance.pass_to_pass if test not in excused]
    if calibration is None:
        broken = sum(not set(evidence.statuses(test)) & set(by_log.FINE) for test in required)
    else:
        ran = required if evidence.complete else [test for test in required if evidence.statuses(test)]
        broken = sum(map(evidence.fails, ran))
    tampered = tuple(evidence.signs())
    checks = evaluate(instance.meta.get(CHECKS, ()), repository.to_grade(changes.tree))
    unmet = tuple(check.reason for check in checks if not check.holds)
    # Reports of only one or two processes, or of processes that exited early, may be forged by the code under test.
    trusted = calibration is None or (evidence.complete and not evidence.error)
    fine_tests = trusted and mended == len(instance.fail_to_pass) > 0
    return SWEVerdict(
        passed=fine_tests and not (broken or evidence.error or tampered or unmet),
        mended=0.0 if tampered or not trusted else mended / max(1, len(instance.fail_to_pass)),
        broken=broken,
        changed=changes.changed,
        dropped=changes.dropped,
        patch=diff_trees(repository.files, changes.tree, binary=False),
        tampered=tampered,
        error=evidence.error,
        unmet=unmet,
        manner=manner,
        changed_tests=sum(len(run.changed) for run in evidence.runs),
        unchanged=calibration.unchanged(instance.fail_to_pass) if calibration else instance.fail_to_pass,
    )
