"""Quantiles of Student's t distribution, for intervals from few tasks."""

from __future__ import annotations

from math import pi, sqrt, tan
from statistics import NormalDist

from agentgym.errors import UsageError


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
