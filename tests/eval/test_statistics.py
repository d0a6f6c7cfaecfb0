from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.eval.statistics import (
    Interval,
    cluster_bootstrap,
    effective_trials,
    mean_of_means,
    paired_difference,
    pass_at_k,
    pass_hat_k,
    powers_up_to,
    success_difference,
    success_interval,
    wilson,
)
from tests.rows import each_row


@each_row(
    ("successes", "trials", "low", "high"),
    [
        (1, 1, 0.20655, 1.0),  # 1 / (1 + z^2)
        (0, 10, 0.0, 0.27754),  # z^2 / (n + z^2)
        (10, 10, 0.72246, 1.0),
        (5, 10, 0.23659, 0.76341),
        (81, 263, 0.25530, 0.36621),  # Newcombe (1998), table I
        (15, 148, 0.06239, 0.16052),  # Newcombe (1998), table I: 0.0624 to 0.1605
    ],
)
def test_wilson_gives_the_published_intervals(successes: int, trials: int, low: float, high: float):
    assert wilson(successes, trials) == pytest.approx((low, high), abs=2e-4)


def test_pass_at_k_counts_the_subsets_that_hold_a_success():
    for attempts, successes in [(5, 0), (5, 1), (5, 3), (5, 5)]:
        results = [True] * successes + [False] * (attempts - successes)
        for k in range(1, attempts + 1):
            subsets = list(combinations(results, k))
            assert pass_at_k(attempts, successes, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))
            assert pass_hat_k(attempts, successes, k) == pytest.approx(sum(map(all, subsets)) / len(subsets))


def test_powers_end_with_the_number_of_attempts():
    assert [powers_up_to(n) for n in (1, 2, 6, 8)] == [[1], [1, 2], [1, 2, 4, 6], [1, 2, 4, 8]]


def test_every_task_counts_the_same_however_often_it_was_tried():
    assert mean_of_means([[1.0], [0.0, 0.0, 0.0]]) == 0.5


def test_attempts_at_one_task_do_not_make_the_interval_narrower():
    once = [[float(i % 2)] for i in range(40)]
    repeated = [group * 16 for group in once]
    assert cluster_bootstrap(repeated, seed=0) == cluster_bootstrap(once, seed=0)
    naive = wilson(20 * 16, 40 * 16)
    assert width(cluster_bootstrap(repeated, seed=0)) > 3 * width(naive)


def test_the_bootstrap_agrees_with_the_normal_interval_of_task_means():
    groups = [[float(i % 4 == 0), float(i % 2 == 0)] for i in range(200)]
    interval = cluster_bootstrap(groups, seed=1)
    # Task means 1, 0, 0.5, 0 in equal parts: mean 0.375, deviation 0.41458; 1.96 * 0.41458 / sqrt(200) = 0.05746
    assert interval == pytest.approx((0.375 - 0.0575, 0.375 + 0.0575), abs=0.006)


def test_unanimous_results_are_not_taken_for_certainty():
    assert success_interval([[True] * 4] * 10) == wilson(10, 10)
    assert success_interval([[False] * 4] * 10) == wilson(0, 10)


@each_row("groups", [[[True, False] * 4], [[True, False]] * 20])
def test_tasks_that_are_all_solved_alike_are_not_taken_for_certainty(groups: list[list[bool]]):
    low, high = success_interval(groups)
    assert low < 0.4 < 0.6 < high


def test_agreeing_attempts_count_as_one_trial_per_task():
    agreeing = [[index % 2 == 0] * 8 for index in range(40)]
    assert success_interval(agreeing) == pytest.approx(wilson(20, 40))
    assert effective_trials([[index % 8 == attempt for attempt in range(8)] for index in range(40)]) == 40 * 8


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=9), min_size=1, max_size=12))
def test_effective_trials_lie_between_tasks_and_attempts(groups: list[list[bool]]):
    assert len(groups) <= effective_trials(groups) <= sum(map(len, groups))


@each_row("tasks", [1, 2, 3, 5, 10])
@each_row("shape", [(0.5, 0.5), (2.0, 1.0), (50.0, 50.0)])
def test_intervals_of_few_tasks_cover_the_true_rate_as_claimed(tasks: int, shape: tuple[float, float]):
    dice, held = random.Random(tasks), 0
    for _ in range(300):
        rates = [dice.betavariate(*shape) for _ in range(tasks)]
        low, high = success_interval([[dice.random() < rate for _ in range(8)] for rate in rates])
        held += low <= shape[0] / sum(shape) <= high
    assert held / 300 > 0.9


def test_a_difference_of_success_lies_between_minus_1_and_1():
    assert success_difference([0.0, 0.0], [1.0, 0.0], seed=0)[1] == (-1.0, 1.0)


def test_a_paired_difference_is_surer_than_its_two_sides():
    before = [i / 100 for i in range(100)]
    after = [value + (0.1 if i % 2 else 0.2) for i, value in enumerate(before)]
    mean, interval = paired_difference(before, after, seed=0)
    assert mean == pytest.approx(0.15)
    assert interval.low > 0.13
    assert interval.high < 0.17


def width(interval: Interval) -> float:
    return interval.high - interval.low


def test_every_interval_lies_in_0_to_1_and_holds_the_rate():
    for trials in range(1, 201):
        for successes in range(trials + 1):
            low, high = wilson(successes, trials)
            assert 0.0 <= low <= successes / trials <= high <= 1.0, (successes, trials)


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=1, max_size=12))
def test_an_interval_over_tasks_holds_the_mean_of_their_rates(groups: list[list[bool]]):
    low, high = success_interval(groups)
    assert 0.0 <= low <= mean_of_means(groups) <= high <= 1.0


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=3), min_size=1, max_size=6), st.integers(0, 9))
def test_a_bootstrap_holds_its_mean(groups: list[list[float]], seed: int):
    low, high = cluster_bootstrap(groups, seed, draws=40)
    assert low <= mean_of_means(groups) <= high


@given(st.lists(st.booleans(), min_size=1, max_size=50))
def test_with_one_attempt_per_task_the_interval_is_that_of_independent_trials(solved: list[bool]):
    assert success_interval([[success] for success in solved]) == pytest.approx(wilson(sum(solved), len(solved)))
