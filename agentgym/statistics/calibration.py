"""How well stated confidences agree with what happened."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.errors import UsageError

BINS = 10


def brier_score(confidences: Sequence[float], outcomes: Sequence[bool]) -> float:
    """Return the mean squared difference of confidence and outcome (Brier 1950): 0 is best; always saying 0.5 has 0.25.

    Args:
        confidences: From 0 to 1.
        outcomes: Whether each came true, in the same order.
    """
    _check(confidences, outcomes)
    return sum((stated - came) ** 2 for stated, came in zip(confidences, outcomes, strict=True)) / len(confidences)


def expected_calibration_error(confidences: Sequence[float], outcomes: Sequence[bool], bins: int = BINS) -> float:
    """Return the mean gap between confidence and success rate over bins of equal width (Guo et al. 2017, 1706.04599).

    Bins weigh as much as they hold. A bin contains its upper edge; the first also holds 0.
    """
    _check(confidences, outcomes)
    held: dict[int, list[float]] = {}
    for stated, came in zip(confidences, outcomes, strict=True):
        held.setdefault(_bin_of(stated, bins), []).append(stated - came)
    return sum(abs(sum(gaps)) for gaps in held.values()) / len(confidences)


def _bin_of(stated: float, bins: int) -> int:
    return next(number for number in range(bins) if stated <= (number + 1) / bins)


def _check(confidences: Sequence[float], outcomes: Sequence[bool]) -> None:
    if len(confidences) != len(outcomes) or not confidences:
        raise UsageError(f"each confidence needs an outcome: {len(confidences)} and {len(outcomes)} were given")
    for stated in confidences:
        if not 0.0 <= stated <= 1.0:
            raise UsageError(f"a confidence is from 0 to 1, not {stated}")
