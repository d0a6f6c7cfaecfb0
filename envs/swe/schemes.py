"""Reward schemes of the SWE environment: the tiers of Gated Reward Accumulation (arXiv 2508.10548), to be varied."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType

from agentgym.rewards import OUTCOME, Channel, Gate, Scheme


class Tier(IntEnum):
    """How far an episode got; the value of the channel `tier`."""

    NO_SUBMIT = 0
    EMPTY = 1
    FAILS = 2
    PASSES = 3


CHANNELS = {
    OUTCOME: Channel("1 if the submitted change passes every hidden test"),
    "tier": Channel("0 nothing submitted, 1 an empty change, 2 a change that fails tests, 3 one that passes", high=3.0),
    "submitted": Channel("1 if the work was submitted"),
    "patched": Channel("1 if what was submitted changes source files"),
    "mended": Channel("share of the failing tests that pass now"),
    "format": Channel("1 if the action could be read and its arguments were right", per_turn=True),
    "executed": Channel("1 if the call did what it was to do", per_turn=True),
    "modified": Channel("1 if the repository was changed, submitted or not"),
    "tests_run": Channel("1 if tests were run before the work was submitted"),
    "localised": Channel("mean F1 of the files and lines changed, against the gold patch"),
    "similarity": Channel("likeness of the change and the gold patch (SWE-RL, arXiv 2502.18449)"),
}

LOW = MappingProxyType({"format": 0.05, "executed": 0.05, "tests_run": 0.05, "localised": 0.1, "mended": 0.2})
"""What counts only behind the gate, unless told otherwise."""


def g_ra(
    *,
    no_submit: float = 0.0,
    empty: float = 0.05,
    fails: float = 0.15,
    passes: float = 1.15,
    opens_at: Tier = Tier.FAILS,
    strict: bool = False,
    low: Mapping[str, float] = LOW,
    similarity: float = 0.05,
    allow_unsound: bool = False,
) -> Scheme:
    """Return a scheme of four tiers, with the smaller channels behind a gate.

    The tiers are paid by what each adds to the one below; `no_submit` itself is left out, as a constant that every
    episode gets changes no advantage.

    Args:
        no_submit: Nothing was submitted.
        empty: What was submitted changes nothing.
        fails: It changes something and fails tests.
        passes: It passes.
        opens_at: Tier from which on the smaller channels count.
        strict: They count only above that tier.
        low: Weights of the smaller channels; those that are earned turn after turn are averaged.
        similarity: Weight of the likeness with the gold patch, which counts only if some failing test passes now.
        allow_unsound: Accept tiers in which a failed episode could earn more than a solved one.
    """
    weights = {OUTCOME: passes - fails, "submitted": empty - no_submit, "patched": fails - empty, **low}
    gates = [Gate(on="tier", at_least=float(opens_at), opens=tuple(low), strict=strict)]
    if similarity:
        weights["similarity"] = similarity
        gates.append(Gate(on="mended", at_least=0.0, opens=("similarity",), strict=True))
    averaged = frozenset(name for name in low if CHANNELS[name].per_turn)
    return Scheme(weights=weights, gates=tuple(gates), averaged=averaged, allow_unsound=allow_unsound)
