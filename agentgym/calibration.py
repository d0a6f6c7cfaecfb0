"""How well stated confidences agree with success, for environments in which an answer carries one."""

from __future__ import annotations

from collections.abc import Iterable

from agentgym.statistics import brier_score, expected_calibration_error
from agentgym.trajectory import Trajectory

CONFIDENCE_DETAIL = "confidence"
"""The entry of `Env.details` that holds the confidence, from 0 to 1."""


def calibration(trajectories: Iterable[Trajectory]) -> dict[str, float]:
    """Return how well confidences are calibrated, to be returned by `Env.figures`; nothing where none was stated.

    An environment states them as `details()["confidence"]`, from 0 to 1. Trajectories without one do not count, nor
    does a value out of range, as it comes from the model.
    """
    stated = [(_share(t.details.get(CONFIDENCE_DETAIL)), t.success) for t in trajectories]
    known = [(value, success) for value, success in stated if value is not None]
    if not known:
        return {}
    confidences, successes = [value for value, _ in known], [success for _, success in known]
    return {
        "confidence": sum(confidences) / len(known),
        "calibration error": expected_calibration_error(confidences, successes),
        "Brier score": brier_score(confidences, successes),
    }


def _share(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= 1 else None
