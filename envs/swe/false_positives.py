"""How often canaries accuse the innocent: gold solutions and unchanged repositories, graded again and again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agentgym.envs.swe.grading import Grader, signs
from agentgym.envs.swe.repository import Repository
from agentgym.errors import TaskError


@dataclass
class FalsePositives:
    """What was measured."""

    instances: int = 0
    runs: int = 0
    accused: int = 0
    """Runs in which something honest was taken for tampering."""
    canaries: int = 0
    """Canary cases that were run."""
    alive: int = 0
    """Of these, those that passed on a gold solution."""
    unusable: dict[str, str] = field(default_factory=dict)
    """Instances that cannot be graded, and why."""
    without_canaries: list[str] = field(default_factory=list)
    """Instances of which no canary could be made."""
    manners: dict[str, int] = field(default_factory=dict)
    """How the tests of the instances are brought in."""


def canary_false_positives(repositories: Iterable[Repository], grader: Grader, *, repeats: int = 3) -> FalsePositives:
    """Measure over honest trees: the gold solution and the unchanged repository, each with new canaries every time."""
    found = FalsePositives()
    for repository in repositories:
        found.instances += 1
        try:
            calibration = grader.calibrate(repository)
        except TaskError as error:
            found.unusable[repository.instance.id] = str(error)
            continue
        found.manners[calibration.manner.value] = found.manners.get(calibration.manner.value, 0) + 1
        if not calibration.canaries:
            found.without_canaries.append(repository.instance.id)
        for _ in range(repeats):
            for tree in (repository.gold, repository.files):
                chosen = calibration.drawn(repository.instance.fail_to_pass)
                run = grader.run(repository, repository.to_grade(tree), repository.hidden, chosen, calibration.manner)
                found.runs += 1
                found.accused += bool(signs(run))
                if tree is repository.gold:
                    statuses = [status for cases in run.canaries.values() for status in cases.values()]
                    found.canaries += len(statuses)
                    found.alive += statuses.count("passed")
    return found
