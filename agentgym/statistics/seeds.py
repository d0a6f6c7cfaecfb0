"""Aggregates over several runs (seeds) of one method, as in rliable (Agarwal et al. 2021, arXiv 2108.13264).

Scores are a matrix with one row per run and one column per task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym.errors import UsageError
from agentgym.statistics.intervals import CONFIDENCE, DRAWS, Interval

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
