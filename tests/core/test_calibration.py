"""Calibration of stated confidences against success."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym.core.endings import Reason
from agentgym.core.rewards import OUTCOME
from agentgym.core.trajectory import Trajectory, Turn
from agentgym.eval.measures import calibration


def episode(confidence: Any, solved: bool) -> Trajectory:
    details = {} if confidence is None else {"confidence": confidence}
    turns = [Turn("", [], {OUTCOME: float(solved)}, 0.0)]
    return Trajectory("x", "e", "t", "h", 0, "p", [], turns=turns, details=details, reason=Reason.ANSWERED)


def test_calibration_compares_confidences_with_success():
    """Of ten answers at 0.9, five are right: the gap is 0.4, and the squared gaps are 0.01 and 0.81."""
    figures = calibration([episode(0.9, index % 2 == 0) for index in range(10)])
    assert figures == pytest.approx({"confidence": 0.9, "calibration error": 0.4, "Brier score": 0.41})


def test_episodes_without_a_usable_confidence_are_skipped():
    stated = [episode(1.0, True), episode(0.0, False)]
    unstated = [episode(value, False) for value in (None, "high", 1.2, -1, True, float("nan"))]
    assert calibration([*stated, *unstated]) == calibration(stated)
    assert calibration(stated) == {"confidence": 0.5, "calibration error": 0.0, "Brier score": 0.0}
    assert calibration(unstated) == {}
