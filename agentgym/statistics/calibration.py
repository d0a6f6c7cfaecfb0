"""Measures how well stated confidences agree with outcomes."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.errors import UsageError

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
