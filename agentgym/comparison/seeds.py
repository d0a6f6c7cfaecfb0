"""`compare_seeds`: compares several runs (seeds) of two methods, as in rliable (arXiv 2108.13264)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np

from agentgym.comparison.runs import Attempt, Run, TaskKey, check_comparable
from agentgym.errors import UsageError
from agentgym.statistics import (
    Interval,
    bootstrap_over_seeds,
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
)

_THRESHOLDS = 10


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval."""

    value: float
    interval: Interval
    """Bootstrap over whole runs and tasks."""


@dataclass(frozen=True)
class Profile:
    """Share of scores (over runs and tasks) above each threshold."""

    thresholds: list[float]
    a: list[float]
    b: list[float]


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of both methods' scores."""

    a: Estimate
    b: Estimate
    difference: Estimate
    """`b - a`."""


@dataclass(frozen=True)
class ScoreComparison:
    """How the scores of two methods differ. A score is the mean over a run's attempts at a task."""

    mean: Aggregate
    interquartile_mean: Aggregate
    """Mean of the middle half of all scores."""
    probability_of_improvement: Estimate
    """Probability that a run of B scores higher than a run of A on a random task."""
    profile: Profile


@dataclass(frozen=True)
class SeedsComparison:
    """How the runs of method B differ from those of method A."""

    a: list[str]
    """Names of the runs."""
    b: list[str]
    tasks: int
    """Tasks with a valid attempt in every run; only these are compared."""
    left_out: int
    """Tasks missing in some run."""
    failed: int
    """Tasks of all runs that are left out because all attempts of some run failed."""
    success: ScoreComparison
    reward: ScoreComparison

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON data."""
        return asdict(self)


def compare_seeds(a: Sequence[Run], b: Sequence[Run], *, seed: int = 0) -> SeedsComparison:
    """Compare the runs of method B with those of method A.

    Args:
        a: The runs of one method, such as one per seed of its training.
        b: The runs of the other method.
        seed: Seed of the bootstrap.

    Raises:
        UsageError: A side is empty, the tasks of the runs differ, or no task has a valid attempt in every run.
    """
    if not a or not b:
        raise UsageError("each side needs at least one run")
    runs = [*a, *b]
    for run in runs[1:]:
        check_comparable(runs[0], run)
    keys = {key for run in runs for key in run.tasks}
    every = [key for key in runs[0].tasks if all(key in run.tasks for run in runs)]
    valid = [key for key in every if all(run.valid(key) for run in runs)]
    if not valid:
        raise UsageError(f"no task has an episode that did not fail in each of the {len(runs)} runs")
    return SeedsComparison(
        a=[run.name for run in a],
        b=[run.name for run in b],
        tasks=len(valid),
        left_out=len(keys) - len(every),
        failed=len(every) - len(valid),
        success=_compared(a, b, valid, lambda attempt: float(attempt.success), seed),
        reward=_compared(a, b, valid, lambda attempt: attempt.measures["reward"], seed),
    )


def _scores(runs: Sequence[Run], tasks: Sequence[TaskKey], of: Callable[[Attempt], float]) -> np.ndarray:
    """Return one row per run and one column per task."""
    return np.array([[fmean(map(of, run.valid(key))) for key in tasks] for run in runs])


_Statistic = Callable[[np.ndarray, np.ndarray], float]


def _compared(
    runs_a: Sequence[Run], runs_b: Sequence[Run], tasks: Sequence[TaskKey], of: Callable[[Attempt], float], seed: int
) -> ScoreComparison:
    a, b = _scores(runs_a, tasks, of), _scores(runs_b, tasks, of)
    statistics: dict[str, _Statistic] = {
        **_statistics_of("mean", lambda scores: float(scores.mean())),
        **_statistics_of("middle", interquartile_mean),
        "improvement": lambda a, b: probability_of_improvement(b, a),
    }
    intervals = bootstrap_over_seeds(statistics, [a, b], seed)
    estimates = {name: Estimate(statistic(a, b), intervals[name]) for name, statistic in statistics.items()}

    def aggregate(name: str) -> Aggregate:
        return Aggregate(*(estimates[f"{name} {what}"] for what in ("a", "b", "difference")))

    return ScoreComparison(aggregate("mean"), aggregate("middle"), estimates["improvement"], _profile(a, b))


def _statistics_of(name: str, of: Callable[[np.ndarray], float]) -> dict[str, _Statistic]:
    return {
        f"{name} a": lambda a, b: of(a),
        f"{name} b": lambda a, b: of(b),
        f"{name} difference": lambda a, b: of(b) - of(a),
    }


def _profile(a: np.ndarray, b: np.ndarray) -> Profile:
    """Return the profiles over thresholds from the lowest score to the highest."""
    low, high = min(a.min(), b.min()), max(a.max(), b.max())
    thresholds = np.linspace(low, high, _THRESHOLDS + 1).tolist()
    return Profile(thresholds, performance_profile(a, thresholds), performance_profile(b, thresholds))
