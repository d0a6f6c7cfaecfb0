"""The statistics against scipy, and against recorded results of rliable and scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from agentgym.base.errors import UsageError
from agentgym.eval.statistics import (
    Decisions,
    Interval,
    bootstrap_over_seeds,
    brier_score,
    cluster_bootstrap,
    expected_calibration_error,
    interquartile_mean,
    paired_difference,
    performance_profile,
    probability_of_improvement,
    sign_test,
    student_quantile,
    success_difference,
    wilson,
)
from tests.rows import each_row

pytestmark = pytest.mark.nightly

# Four runs of one method and three of another, on six tasks.
A = [
    [0.10, 0.55, 0.92, 0.40, 0.71, 0.33],
    [0.21, 0.47, 1.00, 0.38, 0.66, 0.12],
    [0.05, 0.60, 0.85, 0.52, 0.80, 0.41],
    [0.18, 0.51, 0.97, 0.29, 0.75, 0.27],
]
B = [
    [0.25, 0.58, 0.90, 0.61, 0.77, 0.30],
    [0.30, 0.47, 0.99, 0.55, 0.82, 0.45],
    [0.17, 0.66, 1.00, 0.70, 0.69, 0.52],
]


def interval_over_seeds(statistic: Callable[..., float], scores: Sequence[Any], seed: int, **how: bool) -> Interval:
    return bootstrap_over_seeds({"it": statistic}, scores, seed, **how)["it"]


def mean(scores: np.ndarray) -> float:
    return float(scores.mean())


def test_wilsons_interval_is_scipys():
    for trials in range(1, 60):
        for successes in range(trials + 1):
            for confidence in (0.8, 0.95):
                theirs = stats.binomtest(successes, trials).proportion_ci(confidence, method="wilson")
                assert wilson(successes, trials, confidence) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@each_row("freedom", [1, 2, 3, 4, 7, 20, 400])
def test_students_quantiles_are_scipys(freedom: int):
    for share in (0.6, 0.75, 0.9, 0.975):
        assert student_quantile(share, freedom) == pytest.approx(stats.t.ppf(share, freedom), rel=0.01)
        assert student_quantile(1 - share, freedom) == pytest.approx(-student_quantile(share, freedom))
    for share, few in ((0.0, 3), (1.0, 3), (0.5, 0)):
        with pytest.raises(UsageError, match="quantile"):
            student_quantile(share, few)


@each_row("tasks", [2, 3, 5, 9])
def test_a_difference_over_few_tasks_is_as_uncertain_as_students_interval(tasks: int):
    generator = np.random.default_rng(tasks)
    before, after = generator.normal(size=tasks), generator.normal(1.0, 2.0, tasks)
    low, high = stats.t.interval(0.95, tasks - 1, (after - before).mean(), stats.sem(after - before))
    interval = paired_difference(before.tolist(), after.tolist(), seed=0)[1]
    assert interval.high - interval.low >= 0.99 * (high - low)


def test_the_sign_test_is_scipys_exact_binomial_test():
    for wins, losses in [*product(range(25), repeat=2), (700, 650), (5000, 4700)]:
        theirs = stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
        assert sign_test(wins, losses) == pytest.approx(theirs, rel=1e-9), (wins, losses)
    with pytest.raises(UsageError, match="-1"):
        sign_test(-1, 2)


@each_row("number", range(3))
def test_bootstrap_intervals_over_tasks_are_scipys(number: int):
    generator = np.random.default_rng(number)
    before = generator.random(80).round(1)
    after = np.clip(before + generator.normal(0.1, 0.2, 80), 0.0, 1.0)
    theirs = stats.bootstrap((after - before,), np.mean, method="percentile", n_resamples=9000, rng=number)
    expected = (theirs.confidence_interval.low, theirs.confidence_interval.high)
    difference, interval = paired_difference(before.tolist(), after.tolist(), seed=0)
    assert difference == pytest.approx(float((after - before).mean()))
    students = stats.t.interval(0.95, 79, (after - before).mean(), stats.sem(after - before))
    expected = min(expected[0], students[0]), max(expected[1], students[1])
    assert interval == pytest.approx(expected, abs=0.006)
    groups = [[first, two] for first, two in zip(before, after, strict=True)]
    theirs = stats.bootstrap(((before + after) / 2,), np.mean, method="percentile", n_resamples=9000, rng=number)
    expected = (theirs.confidence_interval.low, theirs.confidence_interval.high)
    assert cluster_bootstrap(groups, seed=0) == pytest.approx(expected, abs=0.009)


def test_aggregates_over_seeds_are_rliables():
    """rliable 1.2.0: aggregate_iqm, probability_of_improvement, score_distributions."""
    assert interquartile_mean(A) == pytest.approx(0.48583333333333334)
    assert interquartile_mean(B) == pytest.approx(0.6)
    assert probability_of_improvement(B, A) == pytest.approx(0.7638888888888888)
    thresholds = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert performance_profile(A, thresholds) == pytest.approx([1.0, 5 / 6, 7 / 12, 1 / 3, 1 / 6, 0.0])
    assert performance_profile(B, thresholds) == pytest.approx([1.0, 17 / 18, 7 / 9, 1 / 2, 2 / 9, 0.0])


def test_the_interquartile_mean_is_scipys_trimmed_mean():
    generator = np.random.default_rng(0)
    for shape in [(1, 1), (1, 3), (2, 2), (3, 5), (5, 7), (4, 25)]:
        scores = generator.random(shape)
        assert interquartile_mean(scores) == pytest.approx(stats.trim_mean(scores.ravel(), 0.25))


def test_the_probability_of_improvement_is_scipys_mann_whitney_statistic():
    generator = np.random.default_rng(0)
    mine, theirs = generator.integers(0, 4, (5, 9)) / 4, generator.integers(0, 4, (3, 9)) / 4
    u = [stats.mannwhitneyu(mine[:, task], theirs[:, task]).statistic / 15 for task in range(9)]
    assert probability_of_improvement(mine, theirs) == pytest.approx(np.mean(u))
    assert probability_of_improvement(theirs, mine) == pytest.approx(1 - np.mean(u))


@each_row(
    ("scores", "statistic", "tasks", "low", "high"),
    [
        # rliable 1.2.0, get_interval_estimates with 8,000 resamples and two seeds, which differ by up to 0.009
        (A, interquartile_mean, False, 0.451, 0.522),
        (A, mean, False, 0.474, 0.5306),
        (B, interquartile_mean, False, 0.5525, 0.638),
        (B, mean, False, 0.5647, 0.6256),
        (A, interquartile_mean, True, 0.256, 0.771),
        (A, mean, True, 0.294, 0.724),
        (B, interquartile_mean, True, 0.377, 0.8195),
        (B, mean, True, 0.410, 0.7845),
    ],
)
def test_the_stratified_bootstrap_is_rliables(
    scores: list[list[float]], statistic: Callable[..., float], tasks: bool, low: float, high: float
):
    interval = interval_over_seeds(statistic, [scores], 0, whole_runs=False, tasks=tasks)
    assert interval == pytest.approx((low, high), abs=0.02 if tasks else 0.004)


def test_the_bootstrap_of_an_improvement_is_rliables():
    interval = interval_over_seeds(probability_of_improvement, [B, A], 0, whole_runs=False, tasks=False)
    assert interval == pytest.approx((0.60, 0.9028), abs=0.01)


def test_uncertainty_over_seeds_does_not_average_out_over_tasks():
    """Separate draws for each task would average out over the tasks."""
    scores = [[0.2] * 50, [0.4] * 50, [0.6] * 50, [0.8] * 50]
    whole = interval_over_seeds(mean, [scores], 0)
    by_task = interval_over_seeds(mean, [scores], 0, whole_runs=False)
    means = [sum(scores_drawn) / 4 for scores_drawn in product([0.2, 0.4, 0.6, 0.8], repeat=4)]
    assert whole == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.051)
    assert whole.high - whole.low > 4 * (by_task.high - by_task.low)


def test_methods_are_compared_on_the_same_tasks():
    """A method that is better by the same amount on every task is better with certainty, even if the tasks differ."""
    scores = [[0.0, 0.2, 0.5, 0.8]] * 3
    better = [[score + 0.1 for score in run] for run in scores]
    interval = interval_over_seeds(lambda a, b: b.mean() - a.mean(), [scores, better], 0)
    assert interval == pytest.approx((0.1, 0.1))


@each_row(
    ("scores", "problem"),
    [
        ([[]], "one row per run"),
        ([[0.1, 0.2]], "one row per run"),
        ([[[0.1, 0.2]], [[0.1]]], "all runs need scores of the same tasks, not of \\[1, 2\\] tasks"),
    ],
)
def test_scores_of_different_tasks_are_refused(scores: list[list[list[float]]], problem: str):
    with pytest.raises(UsageError, match=problem):
        interval_over_seeds(mean, scores, 0)


CONFIDENCES = [0.05, 0.1, 0.15, 0.35, 0.4, 0.55, 0.6, 0.62, 0.8, 0.85, 0.9, 0.95, 1.0, 0.0, 0.7, 0.3]
CAME_TRUE = [bool(int(digit)) for digit in "0010110111011010"]


def test_calibration_is_scikit_learns():
    """scikit-learn 1.9: brier_score_loss, and calibration_curve of 10 uniform bins, weighted by what they hold."""
    assert brier_score(CONFIDENCES, CAME_TRUE) == pytest.approx(0.1862125)
    assert expected_calibration_error(CONFIDENCES, CAME_TRUE) == pytest.approx(0.21125)


def test_calibration_is_best_where_confidence_is_the_success_rate():
    outcomes = [True, True, True, False]
    assert expected_calibration_error([0.75] * 4, outcomes) == 0.0
    assert expected_calibration_error([1.0] * 4, outcomes) == 0.25
    assert brier_score([0.75] * 4, outcomes) < brier_score([1.0] * 4, outcomes)
    assert brier_score([0.5] * 4, outcomes) == 0.25
    assert (brier_score([1.0, 0.0], [True, False]), expected_calibration_error([0.0], [False])) == (0.0, 0.0)


@each_row(("confidences", "outcomes"), [([], []), ([0.5], []), ([1.5], [True]), ([-0.1], [True])])
def test_confidences_need_outcomes_and_lie_between_0_and_1(confidences: list[float], outcomes: list[bool]):
    for measure in (brier_score, expected_calibration_error):
        with pytest.raises(UsageError):
            measure(confidences, outcomes)


def test_decisions_have_the_precision_recall_and_f1_of_scikit_learn():
    """scikit-learn 1.9, precision_recall_fscore_support with zero_division=0."""
    decided = [True, True, True, False, False, False, True, False]
    true = [True, False, True, True, False, False, True, True]
    decisions = Decisions.of(zip(decided, true, strict=True))
    assert decisions == Decisions(right=3, wrong=1, missed=2, rejected=2)
    assert (decisions.total, decisions.precision, decisions.recall, decisions.f1) == pytest.approx(
        (8, 0.75, 0.6, 2 / 3)
    )
    nothing = Decisions.of([(False, False)])
    assert (nothing.precision, nothing.recall, nothing.f1) == (0.0, 0.0, 0.0)


def test_equal_differences_of_success_are_not_taken_for_certainty():
    tied, (low, high) = success_difference([1.0, 0.0] * 5, [1.0, 0.0] * 5, seed=0)
    assert (tied, low, high) == pytest.approx((0.0, -wilson(0, 10).high, wilson(0, 10).high))
    better, interval = success_difference([0.0] * 10, [1.0] * 10, seed=0)
    assert (better, interval.high) == (1.0, 1.0)
    assert interval.low == pytest.approx(1 - 2 * wilson(0, 10).high)


def test_a_difference_of_success_is_otherwise_the_paired_difference():
    before, after = [0.0, 0.0, 1.0, 1.0, 0.5], [1.0, 0.0, 1.0, 0.0, 0.75]
    assert success_difference(before, after, seed=3) == paired_difference(before, after, seed=3)
    assert isinstance(success_difference([0.1], [0.2], seed=0)[1], Interval)
