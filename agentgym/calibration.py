"""Calibration of the confidences that answers state, for environments whose answers carry one."""

from __future__ import annotations

from collections.abc import Iterable

from agentgym.statistics import brier_score, expected_calibration_error
from agentgym.trajectory import Trajectory

CONFIDENCE_DETAIL = "confidence"
"""The entry of `Env.details` that holds the confidence, from 0 to 1."""


def calibration(trajectories: Iterable[Trajectory]) -> dict[str, float]:
    """Return calibration metrics for `Env.figures`; empty if no confidence was stated.

    An environment reports a confidence as `details()["confidence"]`, from 0 to 1. Trajectories without one are skipped,
    as are values out of range, since they come from the model.
    """
    stated = [(_share(t.details.get(CONFIDENCE_DETAIL)), t.success) for t in trajectories]
    pairs = [(value, success) for value, success in stated if value is not None]
    if not pairs:
        return {}
    confidences, successes = [value for value, _ in pairs], [success for _, success in pairs]
    return {
        "confidence": sum(confidences) / len(pairs),
        "calibration error": expected_calibration_error(confidences, successes),
        "Brier score": brier_score(confidences, successes),
    }


def _share(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= 1 else None
