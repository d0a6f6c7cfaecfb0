"""Estimates with confidence intervals. Attempts at one task are not independent, so tasks are the units.

Pure functions of numbers, independent of trajectories. Random draws come from a seed.
"""

from agentgym.statistics.calibration import brier_score, expected_calibration_error
from agentgym.statistics.decisions import Decisions
from agentgym.statistics.intervals import (
    CONFIDENCE,
    DRAWS,
    Interval,
    cluster_bootstrap,
    effective_trials,
    mean_of_means,
    success_interval,
    task_interval,
    wilson,
)
from agentgym.statistics.over_k import pass_at_k, pass_hat_k, powers_up_to
from agentgym.statistics.pairs import paired_difference, sign_test, success_difference
from agentgym.statistics.seeds import (
    bootstrap_over_seeds,
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
)

__all__ = [
    "CONFIDENCE",
    "DRAWS",
    "Decisions",
    "Interval",
    "bootstrap_over_seeds",
    "brier_score",
    "cluster_bootstrap",
    "effective_trials",
    "expected_calibration_error",
    "interquartile_mean",
    "mean_of_means",
    "paired_difference",
    "pass_at_k",
    "pass_hat_k",
    "performance_profile",
    "powers_up_to",
    "probability_of_improvement",
    "sign_test",
    "success_difference",
    "success_interval",
    "task_interval",
    "wilson",
]
