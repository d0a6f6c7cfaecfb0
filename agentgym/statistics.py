"""Estimates of success with confidence intervals. Attempts at one task are not independent, so tasks are the units.

Pure functions of numbers, independent of trajectories. Random draws come from a seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from agentgym.errors import UsageError

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
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = successes / trials
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

    It is widened to contain that mean, which can fall outside with few tasks or by rounding.

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


def success_interval(groups: Sequence[Sequence[bool]], seed: int, confidence: float = CONFIDENCE) -> Interval:
    """Return an interval of the success rate, given the attempts at each task.

    With one attempt per task it is Wilson's; with more, a bootstrap over tasks. If all attempts agree, a bootstrap
    would claim certainty, so it is Wilson's over the tasks.
    """
    if not groups or not all(groups):
        raise UsageError("an interval needs at least one attempt for each task")
    flat = [result for group in groups for result in group]
    if len(flat) == len(groups) or all(flat) or not any(flat):
        return wilson(sum(group[0] for group in groups), len(groups), confidence)
    return cluster_bootstrap(groups, seed, confidence)


def pass_at_k(attempts: int, successes: int, k: int) -> float:
    """Return the unbiased estimate that at least one of `k` attempts succeeds (Chen et al. 2021, arXiv 2107.03374)."""
    _check_counts(attempts, successes, k)
    return 1.0 - comb(attempts - successes, k) / comb(attempts, k)


def pass_hat_k(attempts: int, successes: int, k: int) -> float:
    """Return the unbiased estimate that all of `k` attempts succeed (pass^k of tau-bench, arXiv 2406.12045)."""
    _check_counts(attempts, successes, k)
    return comb(successes, k) / comb(attempts, k)


def powers_up_to(attempts: int) -> list[int]:
    """Return the values of k worth reporting: 1, 2, 4, ... and `attempts` itself."""
    powers = [2**exponent for exponent in range(attempts.bit_length()) if 2**exponent <= attempts]
    return powers if attempts in powers else [*powers, attempts]


def paired_difference(
    before: Sequence[float], after: Sequence[float], seed: int, confidence: float = CONFIDENCE
) -> tuple[float, Interval]:
    """Return the mean of `after - before` over tasks and its bootstrap interval over tasks.

    Args:
        before: One number per task, e.g. its success rate.
        after: The same tasks in the same order.
        seed: Random seed.
        confidence: Share of resamples inside the interval.
    """
    if len(before) != len(after) or not before:
        raise UsageError(f"pairs are needed: {len(before)} tasks before, {len(after)} after")
    differences = [(late - early,) for early, late in zip(before, after, strict=True)]
    return mean_of_means(differences), cluster_bootstrap(differences, seed, confidence)


def _means(groups: Sequence[Sequence[float]]) -> np.ndarray:
    if not groups or not all(groups):
        raise UsageError("at least one result for each task is needed")
    return np.array([sum(group) / len(group) for group in groups])


def _check_counts(attempts: int, successes: int, k: int) -> None:
    if not 1 <= k <= attempts or not 0 <= successes <= attempts:
        raise UsageError(f"k={k} of {attempts} attempts with {successes} successes: k must be from 1 to {attempts}")
