"""Comparisons of two results on the same tasks."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import stdev

from agentgym.errors import UsageError
from agentgym.statistics.intervals import CONFIDENCE, Interval, cluster_bootstrap, mean_of_means, wilson
from agentgym.statistics.student import student_quantile

_ROUNDING = 1e-12


def paired_difference(
    before: Sequence[float], after: Sequence[float], seed: int, confidence: float = CONFIDENCE
) -> tuple[float, Interval]:
    """Return the mean of `after - before` over tasks and its bootstrap interval over tasks.

    It is at least as wide as Student's interval: with five tasks, a bootstrap alone misses the truth one time in six.

    Args:
        before: One number per task, e.g. its success rate.
        after: The same tasks in the same order.
        seed: Random seed.
        confidence: Share of resamples inside the interval.
    """
    differences = _differences(before, after)
    mean, (low, high) = mean_of_means(differences), cluster_bootstrap(differences, seed, confidence)
    spread = _student_spread([late for (late,) in differences], confidence)
    return mean, Interval(min(low, mean - spread), max(high, mean + spread))


def success_difference(
    before: Sequence[float], after: Sequence[float], seed: int, confidence: float = CONFIDENCE
) -> tuple[float, Interval]:
    """Return `paired_difference` of success rates, with an interval between -1 and 1 that is never a point.

    If all tasks differ by the same amount, a bootstrap would claim certainty. The interval then assumes the largest
    possible difference, in either direction, for the share of unseen tasks that Wilson's interval allows.
    """
    mean, interval = paired_difference(before, after, seed, confidence)
    differences = [late for (late,) in _differences(before, after)]
    if max(differences) - min(differences) > _ROUNDING:
        return mean, Interval(max(-1.0, interval.low), min(1.0, interval.high))
    unseen = wilson(0, len(before), confidence).high
    return mean, Interval(mean - unseen * (1.0 + mean), mean + unseen * (1.0 - mean))


def sign_test(wins: int, losses: int) -> float:
    """Return the exact two-sided p-value of the wins and losses if both are equally likely; ties do not count.

    With one attempt per task on both sides this is McNemar's exact test.
    """
    if wins < 0 or losses < 0:
        raise UsageError(f"wins and losses must not be negative, not {wins} and {losses}")
    decided = wins + losses
    ways = tail = 1
    for count in range(1, min(wins, losses) + 1):
        ways = ways * (decided - count + 1) // count
        tail += ways
    # Integer arithmetic up to the division: 2**decided overflows a float if there are many tasks.
    return min(1.0, 2 * tail / 2**decided)


def _student_spread(values: Sequence[float], confidence: float) -> float:
    """Return half the width of Student's interval of a mean; 0 for a single value."""
    if len(values) == 1:
        return 0.0
    return student_quantile((1 + confidence) / 2, len(values) - 1) * stdev(values) / sqrt(len(values))


def _differences(before: Sequence[float], after: Sequence[float]) -> list[tuple[float]]:
    if len(before) != len(after) or not before:
        raise UsageError(f"pairs are needed: {len(before)} tasks before, {len(after)} after")
    return [(late - early,) for early, late in zip(before, after, strict=True)]
