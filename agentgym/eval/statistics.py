"""Estimates with confidence intervals. Attempts at one task are not independent, so tasks are the units.

Pure functions of numbers, independent of trajectories. Random draws come from a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb, pi, sqrt, tan
from statistics import NormalDist, stdev
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym.base.errors import UsageError

BINS = 10


def brier_score(confidences: Sequence[float], outcomes: Sequence[bool]) -> float:
    """Return the mean squared difference of confidence and outcome (Brier 1950): 0 is best; always saying 0.5 has 0.25.

    Args:
        confidences: From 0 to 1.
        outcomes: Whether each statement was true, in the same order.
    """
    _check(confidences, outcomes)
    return sum((stated - came) ** 2 for stated, came in zip(confidences, outcomes, strict=True)) / len(confidences)


def expected_calibration_error(confidences: Sequence[float], outcomes: Sequence[bool], bins: int = BINS) -> float:
    """Return the mean gap between confidence and success rate over bins of equal width (Guo et al. 2017, 1706.04599).

    Each bin is weighted by its size and contains its upper edge; the first also contains 0.
    """
    _check(confidences, outcomes)
    gaps_by_bin: dict[int, list[float]] = {}
    for stated, came in zip(confidences, outcomes, strict=True):
        gaps_by_bin.setdefault(_bin_of(stated, bins), []).append(stated - came)
    return sum(abs(sum(gaps)) for gaps in gaps_by_bin.values()) / len(confidences)


def _bin_of(stated: float, bins: int) -> int:
    return next(number for number in range(bins) if stated <= (number + 1) / bins)


def _check(confidences: Sequence[float], outcomes: Sequence[bool]) -> None:
    if len(confidences) != len(outcomes) or not confidences:
        raise UsageError(
            f"each confidence needs an outcome, not {len(confidences)} confidences and {len(outcomes)} outcomes"
        )
    for stated in confidences:
        if not 0.0 <= stated <= 1.0:
            raise UsageError(f"a confidence must be from 0 to 1, not {stated}")


@dataclass(frozen=True)
class Decisions:
    """Counts of binary decisions."""

    right: int = 0
    """True positives."""
    wrong: int = 0
    """False positives."""
    missed: int = 0
    """False negatives."""
    rejected: int = 0
    """True negatives."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool, bool]]) -> Decisions:
        """Count pairs of a decision and the truth."""
        counts = {(decided, true): 0 for decided in (True, False) for true in (True, False)}
        for decided, true in pairs:
            counts[bool(decided), bool(true)] += 1
        return cls(counts[True, True], counts[True, False], counts[False, True], counts[False, False])

    @property
    def total(self) -> int:
        """Number of decisions."""
        return self.right + self.wrong + self.missed + self.rejected

    @property
    def precision(self) -> float:
        """Share of positive decisions that are right; 0 without positive decisions."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 0.0

    @property
    def recall(self) -> float:
        """Share of true cases with a positive decision; 0 without true cases."""
        return self.right / (self.right + self.missed) if self.right + self.missed else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if both are 0."""
        both = 2 * self.right + self.wrong + self.missed
        return 2 * self.right / both if both else 0.0


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


def _check_counts(attempts: int, successes: int, k: int) -> None:
    if not 1 <= k <= attempts or not 0 <= successes <= attempts:
        raise UsageError(f"k={k} of {attempts} attempts with {successes} successes: k must be from 1 to {attempts}")


def student_quantile(share: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution.

    It is exact for 1 and 2 degrees of freedom, and otherwise within 1 % for shares up to 0.975 (the expansion of Fisher
    and Cornish 1960).

    Args:
        share: Share of the distribution below the quantile, above 0 and below 1.
        freedom: Degrees of freedom, from 1.
    """
    if not 0 < share < 1 or freedom < 1:
        raise UsageError(f"a quantile needs a share between 0 and 1, not {share}, and a freedom from 1, not {freedom}")
    if freedom == 1:
        return tan(pi * (share - 0.5))
    if freedom == 2:
        return (2 * share - 1) / sqrt(2 * share * (1 - share))
    z = NormalDist().inv_cdf(share)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, start=1))


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


K = TypeVar("K")

Scores = NDArray[np.float64]
"""One row per run, one column per task."""


def interquartile_mean(scores: ArrayLike) -> float:
    """Return the mean of the middle half of all scores, over runs and tasks: it is robust against outliers.

    For scores that are all 0 or 1, it is no better than the mean.
    """
    ordered = np.sort(_matrix(scores), axis=None)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def performance_profile(scores: ArrayLike, thresholds: Sequence[float]) -> list[float]:
    """Return, for each threshold, the share of scores above it, over runs and tasks."""
    matrix = _matrix(scores)
    return [float((matrix > threshold).mean()) for threshold in thresholds]


def probability_of_improvement(scores: ArrayLike, than: ArrayLike) -> float:
    """Return the probability that a run scores higher than a run of the other method on a random task.

    Ties count half, as in the Mann-Whitney statistic.

    Args:
        scores: The scores of the method.
        than: The scores of the other method on the same tasks, of any number of runs.
    """
    mine, theirs = _matrix(scores), _matrix(than)
    _check_same_tasks((mine, theirs))
    wins = (mine[:, None, :] > theirs[None, :, :]).mean()
    ties = (mine[:, None, :] == theirs[None, :, :]).mean()
    return float(wins + ties / 2)


def bootstrap_over_seeds(
    statistics: Mapping[K, Callable[..., float]],
    scores: Sequence[ArrayLike],
    seed: int,
    *,
    whole_runs: bool = True,
    tasks: bool = True,
    confidence: float = CONFIDENCE,
    draws: int = DRAWS,
) -> dict[K, Interval]:
    """Return the percentile bootstrap interval of each statistic, widened to contain the statistic itself.

    Args:
        statistics: Functions of one matrix per method. All see the same resamples.
        scores: One matrix per method, all of the same tasks. Runs of different methods are drawn independently.
        seed: Random seed.
        whole_runs: Draw a run with all its tasks, because one training run plays all of them. Otherwise runs are drawn
            separately for each task, as in rliable, where each task has a training run of its own.
        tasks: Also draw the tasks, the same for all methods: the interval then covers other tasks of this kind, rather
            than only other seeds on these tasks.
        confidence: Share of resamples inside the interval.
        draws: Number of resamples.

    Raises:
        UsageError: A matrix is empty or has another number of tasks.
    """
    matrices = [_matrix(matrix) for matrix in scores]
    _check_same_tasks(matrices)
    generator = np.random.default_rng(seed)
    resampled: dict[K, list[float]] = {name: [] for name in statistics}
    for _ in range(draws):
        resample = _resample(matrices, generator, whole_runs, tasks)
        for name, statistic in statistics.items():
            resampled[name].append(statistic(*resample))
    return {
        name: _interval(resampled[name], statistic(*matrices), confidence) for name, statistic in statistics.items()
    }


def _interval(resampled: Sequence[float], value: float, confidence: float) -> Interval:
    """Return the middle of resampled values, widened to contain the observed value."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    return Interval(min(float(low), value), max(float(high), value))


def _resample(
    matrices: Sequence[Scores], generator: np.random.Generator, whole_runs: bool, tasks: bool
) -> list[Scores]:
    """Return one resample of each matrix."""
    count = matrices[0].shape[1]
    columns = generator.integers(count, size=count) if tasks else np.arange(count)
    resample: list[Scores] = []
    for matrix in matrices:
        runs = len(matrix)
        rows = generator.integers(runs, size=(runs, 1 if whole_runs else count))
        resample.append(matrix[rows, columns[None, :]])
    return resample


def _matrix(scores: ArrayLike) -> Scores:
    matrix = np.asarray(scores, dtype=float)
    if matrix.ndim != 2 or not matrix.size:
        raise UsageError(f"scores need one row per run and one column per task, not the shape {matrix.shape}")
    return matrix


def _check_same_tasks(matrices: Sequence[Scores]) -> None:
    if len(counts := {matrix.shape[1] for matrix in matrices}) != 1:
        raise UsageError(f"all runs need scores of the same tasks, not of {sorted(counts)} tasks")
