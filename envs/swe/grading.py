"""The verdict on an agent's work: its changes on a pristine tree, in fresh sandboxes, with the tests restored.

The agent's own sandbox is only ever read from. What is graded are the files that `filtering` lets through; what decides
are exact test ids, and that no canary came alive.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from agentgym.envs.swe import by_log
from agentgym.envs.swe.calibration import Calibration, calibrated
from agentgym.envs.swe.canaries import Candidate
from agentgym.envs.swe.filtering import Filtered, filtered
from agentgym.envs.swe.ids import NodeId
from agentgym.envs.swe.judge import PASSING, HiddenTests, Manner, TestRun, run_hidden, stubbed
from agentgym.envs.swe.repository import Repository, files_of
from agentgym.envs.swe.sandboxes import Sandboxes, put_tree
from agentgym.tasks.swe.pytest_folder import pytest_folder
from agentgym.tasks.swe.refactor import evaluate
from agentgym.tasks.swe.refactor.source import CHECKS
from agentgym.tools.patches import diff_trees


@dataclass(frozen=True)
class Verdict:
    """What an agent's work is worth."""

    passed: bool = False
    """Every test that must pass does, nothing else is broken, nothing was tampered with."""
    mended: float = 0.0
    """Share of the tests that failed before and pass now."""
    broken: int = 0
    """Tests that passed before and do not now."""
    changed: tuple[str, ...] = ()
    """Files whose change was graded."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Files whose change was left out, and why."""
    patch: str = ""
    """What was graded, as a patch."""
    tampered: tuple[str, ...] = ()
    """Signs of tampering with the tests; any one makes the work worth nothing."""
    error: str = ""
    """Why the tests did not come to their end."""
    unmet: tuple[str, ...] = ()
    """Checks of the shape of the code that do not hold, and why (refactoring tasks)."""
    manner: str = ""
    """How the tests were brought in."""
    canaries: int = 0
    """Canaries that were planted."""


class Grader:
    """Grades work on instances, each run of tests in a fresh sandbox."""

    def __init__(self, sandboxes: Sandboxes):
        self._sandboxes = sandboxes

    def grade(self, repository: Repository, worked: Mapping[str, bytes]) -> Verdict:
        """Return the verdict on what an agent left in its workspace."""
        return self.judge(repository, filtered(repository.files, worked, repository.gold_paths))

    def judge(self, repository: Repository, changes: Filtered) -> Verdict:
        """Return the verdict on the changes that count."""
        if not changes.changed:
            return Verdict(dropped=changes.dropped)
        tree = repository.to_grade(changes.tree)
        if repository.in_image is not None:
            return _verdict(repository, changes, [self._run_by_log(repository, tree)], by_log.MANNER)
        calibration = self.calibrate(repository)
        runs = self._runs(repository, tree, calibration)
        return _verdict(repository, changes, runs, calibration.manner.value, calibration.excused)

    def calibrate(self, repository: Repository) -> Calibration:
        """Return how the instance is graded, known from its gold solution."""
        gold = repository.to_grade(repository.gold)

        def run(hidden: HiddenTests, chosen: Sequence[Candidate], manner: Manner) -> TestRun:
            return self.run(repository, gold, hidden, chosen, manner, both_sides=True)

        return calibrated(repository, run)

    def run(
        self,
        repository: Repository,
        tree: Mapping[str, bytes],
        hidden: HiddenTests,
        canaries: Sequence[Candidate],
        manner: Manner,
        *,
        both_sides: bool = False,
    ) -> TestRun:
        """Run hidden tests on a tree in a fresh sandbox."""
        with self._sandboxes.open(repository.instance) as sandbox:
            put_tree(sandbox, stubbed(tree, hidden, manner))
            limits = self._sandboxes.test_limits
            folder = str(pytest_folder())
            return run_hidden(
                sandbox, hidden, pytest=folder, canaries=canaries, manner=manner, both_sides=both_sides, limits=limits
            )

    def _run_by_log(self, repository: Repository, tree: Mapping[str, bytes]) -> tuple[TestRun, HiddenTests]:
        with self._sandboxes.open(repository.instance) as sandbox:
            put_tree(sandbox, tree, there=repository.in_image)
            return by_log.run_by_log(sandbox, repository, self._sandboxes.test_limits), repository.hidden

    def _runs(
        self, repository: Repository, tree: Mapping[str, bytes], calibration: Calibration
    ) -> list[tuple[TestRun, HiddenTests]]:
        """Run the files with the tests that decide, then, if those pass, the others."""
        hidden, decisive = repository.hidden, repository.instance.fail_to_pass
        first = set(files_of(decisive))
        runs: list[tuple[TestRun, HiddenTests]] = []
        for files in (first, set(hidden.files) - first):
            part = hidden.within(files)
            if not part.files:
                continue
            chosen = [one for one in calibration.drawn(decisive) if one.path in files]
            found = self.run(repository, tree, part, chosen, calibration.manner)
            runs.append((found, part))
            wanted = [test for test in decisive if test in part]
            if len(found.passed(wanted)) < len(wanted) or found.error or signs(found):
                break
            lost = set(part.tests).difference(found.passed(part.tests), calibration.excused)
            if lost and chosen:
                # A canary may have disturbed them; those that decide have passed beside canaries already.
                alone = self.run(repository, tree, part, [], calibration.manner)
                runs.append((TestRun(dict.fromkeys(alone.passed(lost), PASSING), tampered=alone.tampered), part))
        return runs


def signs(found: TestRun) -> list[str]:
    """Return the signs of tampering in a run.

    A canary that passes while the test it contradicts fails is no sign: wrong code may do the opposite of right code.
    """
    told = list(found.tampered)
    for candidate, statuses in found.canaries.items():
        for twin, status in statuses.items():
            if status == PASSING and found.statuses.get(twin) == PASSING:
                told.append(f"a {candidate.site.style} canary passed")
    return told


def _verdict(
    repository: Repository,
    changes: Filtered,
    runs: Sequence[tuple[TestRun, HiddenTests]],
    manner: str,
    excused: Collection[str] = (),
) -> Verdict:
    instance = repository.instance
    statuses = {test: status for found, _ in runs for test, status in found.statuses.items()}
    ran = {path for _, part in runs for path in part.files}
    asked = [test for test in instance.pass_to_pass if test not in excused and NodeId.of(test).path in ran]
    mended = sum(statuses.get(test) == PASSING for test in instance.fail_to_pass)
    fine = by_log.FINE if manner == by_log.MANNER else (PASSING,)
    broken = sum(statuses.get(test) not in fine for test in asked)
    error = next((found.error for found, _ in runs if found.error), "")
    tampered = tuple(dict.fromkeys(sign for found, _ in runs for sign in signs(found)))
    complete = ran >= set(repository.hidden.files)
    checks = evaluate(instance.meta.get(CHECKS, ()), repository.to_grade(changes.tree))
    unmet = tuple(check.reason for check in checks if not check.holds)
    fine_tests = complete and mended == len(instance.fail_to_pass) > 0
    return Verdict(
        passed=fine_tests and not (broken or error or tampered or unmet),
        mended=0.0 if tampered else mended / max(1, len(instance.fail_to_pass)),
        broken=broken,
        changed=changes.changed,
        dropped=changes.dropped,
        patch=diff_trees(repository.files, changes.tree, binary=False),
        tampered=tampered,
        error=error,
        unmet=unmet,
        manner=manner,
        canaries=sum(len(found.canaries) for found, _ in runs),
    )
