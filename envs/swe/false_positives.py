"""Measures false positives of grading: gold solutions and unchanged repositories, graded repeatedly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agentgym.envs.swe.grading import Grader
from agentgym.envs.swe.repository import Repository
from agentgym.errors import TaskError


@dataclass
class FalsePositives:
    """The measurements."""

    instances: int = 0
    runs: int = 0
    accused: int = 0
    """Gradings in which honest work was taken for tampering."""
    refused: int = 0
    """Gradings of a gold solution in which some test did not convince."""
    changed: int = 0
    """How often a test was run in a changed form."""
    unusable: dict[str, str] = field(default_factory=dict)
    """Instances that cannot be graded, and why."""
    unchanged: dict[str, int] = field(default_factory=dict)
    """Instances with tests that decide but have no changed form, and the number of these tests."""
    manners: dict[str, int] = field(default_factory=dict)
    """How the tests of each instance enter the sandbox."""


def false_accusations(repositories: Iterable[Repository], grader: Grader, *, repeats: int = 3) -> FalsePositives:
    """Measure over honest trees: the gold solution and the unchanged repository, with new draws each time."""
    found = FalsePositives()
    for repository in repositories:
        found.instances += 1
        instance = repository.instance
        try:
            calibration = grader.calibrate(repository)
        except TaskError as error:
            found.unusable[instance.id] = str(error)
            continue
        found.manners[calibration.manner.value] = found.manners.get(calibration.manner.value, 0) + 1
        if unchanged := calibration.unchanged(instance.fail_to_pass):
            found.unchanged[instance.id] = len(unchanged)
        for _ in range(repeats):
            for tree in (repository.gold, repository.files):
                evidence = grader.examine(repository, repository.to_grade(tree), calibration, to_the_end=True)
                found.runs += 1
                found.accused += bool(evidence.signs())
                found.changed += sum(len(run.changed) for run in evidence.runs)
                if tree is repository.gold:
                    tests = [test for test in instance.pass_to_pass if test not in calibration.excused]
                    convinced = all(map(evidence.convinces, instance.fail_to_pass))
                    found.refused += not convinced or any(map(evidence.fails, tests))
    return found
