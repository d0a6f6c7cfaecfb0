"""Means over tasks and their intervals: Wilson's for success, a bootstrap over tasks for other numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from agentgym.errors import UsageError
from agentgym.statistics.student import student_quantile

CONFIDENCE = 0.95
DRAWS = 2000
"""Number of bootstrap resamples."""


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


def wilson(successes: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """Return Wilson's score interval of a proportion of independent trials. It contains the proportion itself."""
    if trials < 1 or not 0 <= successes <= trials:
        raise UsageError(f"{successes} successes of {trials} trials is not a proportion")
    return _wilson(successes / trials, trials, confidence)


def _wilson(share: float, trials: float, confidence: float) -> Interval:
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    centre = share + z * z / (2 * trials)
    spread = z * sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    # At 0 and 1 a bound equals the share itself, which rounding misses by about 1e-17.
    low, high = (centre - spread) / scale, (centre + spread) / scale
    return Interval(max(0.0, min(low, share)), min(1.0, max(high, share)))


def mean_of_means(groups: Sequence[Sequence[float]]) -> float:
    """Return the mean over tasks of each task's mean, so that every task counts the same."""
    return float(_means(groups).mean())


def cluster_bootstrap(
    groups: Sequence[Sequence[float]], seed: int, confidence: float = CONFIDENCE, draws: int = DRAWS
) -> Interval:
    """Return the percentile bootstrap interval of `mean_of_means`, resampling whole tasks with replacement.

    It is widened to contain that mean, which may lie outside with few tasks or by rounding.

    Args:
        groups: One sequence of results per task.
        seed: Random seed.
        confidence: Share of resamples inside the interval.
        draws: Number of resamples.
    """
    means = _means(groups)
    generator = np.random.default_rng(seed)
    resampled = [means[generator.integers(len(means), size=len(means))].mean() for _ in range(draws)]
    tail = (1 - confidence) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    mean = float(means.mean())
    return Interval(min(float(low), mean), max(float(high), mean))


def success_interval(groups: Sequence[Sequence[bool]], confidence: float = CONFIDENCE) -> Interval:
    """Return Wilson's interval of the success rate from the attempts at each task.

    Attempts at one task are not independent, so they count as `effective_trials`. A bootstrap over tasks would claim
    certainty for a single task or for tasks with equal success rates, and with five tasks it covers the true rate only
    four times in five.
    """
    if not groups or not all(groups):
        raise UsageError("an interval needs at least one attempt for each task")
    share = min(1.0, max(0.0, mean_of_means(groups)))
    return _wilson(share, effective_trials(groups, confidence), confidence)


def effective_trials(groups: Sequence[Sequence[bool]], confidence: float = CONFIDENCE) -> float:
    """Return the number of independent trials that estimate the success rate as precisely as these attempts.

    It follows from the variance of the tasks' rates (Korn and Graubard 1998; with Wilson's interval: Dean and Pagano
    2015), with a correction for few tasks. It is at least one per task and at most one per attempt.
    """
    tasks, attempts = len(groups), sum(map(len, groups))
    means = _means(groups)
    share = float(means.mean())
    if tasks == 1 or not 0 < share < 1:
        return tasks
    of_mean = float(means.var(ddof=1)) / tasks
    upper = (1 + confidence) / 2
    trust = (NormalDist().inv_cdf(upper) / student_quantile(upper, tasks - 1)) ** 2
    trials = share * (1 - share) / of_mean * trust if of_mean > 0 else attempts
    return min(max(trials, tasks), attempts)


def _means(groups: Sequence[Sequence[float]]) -> np.ndarray:
    if not groups or not all(groups):
        raise UsageError("at least one result for each task is needed")
    return np.array([sum(group) / len(group) for group in groups])
