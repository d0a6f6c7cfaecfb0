"""Estimates at the limits of their ranges, and invalid arguments."""

from __future__ import annotations

import pytest

from agentgym.base.errors import UsageError
from agentgym.eval.statistics import (
    Interval,
    cluster_bootstrap,
    mean_of_means,
    paired_difference,
    pass_at_k,
    pass_hat_k,
    success_interval,
    wilson,
)
from tests.rows import each_row


def width(interval: Interval) -> float:
    return interval.high - interval.low


@each_row(("successes", "trials"), [(0, 0), (-1, 3), (4, 3), (1, -2)])
def test_impossible_proportions_are_refused(successes: int, trials: int):
    with pytest.raises(UsageError, match="is not a proportion"):
        wilson(successes, trials)


@each_row(("attempts", "successes", "k"), [(4, 2, 0), (4, 2, 5), (4, -1, 1), (4, 5, 1), (0, 0, 1), (0, 0, 0)])
def test_estimates_over_k_refuse_impossible_counts(attempts: int, successes: int, k: int):
    for estimate in (pass_at_k, pass_hat_k):
        with pytest.raises(UsageError, match=f"k={k} of {attempts} attempts with {successes} successes"):
            estimate(attempts, successes, k)


@each_row("groups", [[], [[]], [[True], []]])
def test_a_task_without_attempts_is_refused(groups: list[list[bool]]):
    with pytest.raises(UsageError, match="at least one attempt for each task"):
        success_interval(groups)
    for estimate in (mean_of_means, lambda results: cluster_bootstrap(results, seed=0)):
        with pytest.raises(UsageError, match="at least one result for each task"):
            estimate(groups)


def test_the_interval_of_several_attempts_agrees_with_a_bootstrap_over_many_tasks():
    groups = [[True, False], [True, True], [False, False]] * 30
    for confidence in (0.5, 0.95):
        bootstrap = cluster_bootstrap(groups, seed=4, confidence=confidence)
        assert success_interval(groups, confidence) == pytest.approx(bootstrap, abs=0.01)


def test_intervals_widen_with_confidence_on_both_sides():
    groups = [[float(i % 3 == 0), float(i % 2)] for i in range(60)]
    narrow, wide = cluster_bootstrap(groups, seed=0, confidence=0.5), cluster_bootstrap(groups, seed=0)
    assert wide.low < narrow.low < mean_of_means(groups) < narrow.high < wide.high
    before, after = [group[0] for group in groups], [group[1] for group in groups]
    assert width(paired_difference(before, after, seed=0)[1]) > width(paired_difference(before, after, 0, 0.5)[1])


def test_a_bootstrap_depends_on_its_seed_alone():
    groups = [[float(i % 3 == 0)] for i in range(50)]
    assert cluster_bootstrap(groups, seed=1) == cluster_bootstrap(groups, seed=1) != cluster_bootstrap(groups, seed=2)


@each_row(("before", "after"), [([], []), ([0.0], []), ([], [0.0]), ([0.0], [0.0, 1.0])])
def test_differences_need_the_same_tasks_on_both_sides(before: list[float], after: list[float]):
    with pytest.raises(UsageError, match="pairs are needed"):
        paired_difference(before, after, seed=0)


def test_a_difference_is_after_minus_before():
    mean, interval = paired_difference([0.0, 0.0], [1.0, 1.0], seed=0)
    assert (mean, interval) == (1.0, Interval(1.0, 1.0))
