"""Unbiased estimates of the success of `k` attempts at a task, from at least `k` attempts."""

from __future__ import annotations

from math import comb

from agentgym.errors import UsageError


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
