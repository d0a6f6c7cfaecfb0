"""Measures false positives of grading: gold solutions and unchanged repositories, graded repeatedly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agentgym.base.errors import TaskError
from agentgym.envs.swe.grading import SWEGrader
from agentgym.envs.swe.repository import Repository


@dataclass
class FalsePositives:
    """The measurements."""

    instances: int = 0
    runs: int = 0
    accused: int = 0
    """Gradings that took honest work for tampering."""
    refused: int = 0
    """Gradings of a gold solution that did not accept some test."""
    changed: int = 0
    """Number of runs of tests in a changed form."""
    unusable: dict[str, str] = field(default_factory=dict)
    """Instances that cannot be graded, and why."""
    unchanged: dict[str, int] = field(default_factory=dict)
    """Instances with tests that decide but have no changed form, and the number of these tests."""
    manners: dict[str, int] = field(default_factory=dict)
    """How the tests of each instance enter the sandbox."""


def false_accusations(repositories: Iterable[Repository], grader: SWEGrader, *, repeats: int = 3) -> FalsePositives:
    """Measure over honest trees: the gold solution and the unchanged repository, with new draws each time."""
    counts = FalsePositives()
    for repository in repositories:
        counts.instances += 1
        instance = repository.instance
        try:
            calibration = grader.calibrate(repository)
        except TaskError as error:
            counts.unusable[instance.id] = str(error)
            continue
        counts.manners[calibration.manner.value] = counts.manners.get(calibration.manner.value, 0) + 1
        if unchanged := calibration.unchanged(instance.fail_to_pass):
            counts.unchanged[instance.id] = len(unchanged)
        for _ in range(repeats):
            for tree in (repository.gold, repository.files):
                evidence = grader.examine(repository, repository.to_grade(tree), calibration, to_the_end=True)
                counts.runs += 1
                counts.accused += bool(evidence.signs())
                counts.changed += sum(len(run.changed) for run in evidence.runs)
                if tree is repository.gold:
                    tests = [test for test in instance.pass_to_pass if test not in calibration.excused]
                    convinced = all(map(evidence.convinces, instance.fail_to_pass))
                    counts.refused += not convinced or any(map(evidence.fails, tests))
    return counts
