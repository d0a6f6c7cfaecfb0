"""What the channels of `SearchEnv` can pay: the default, and published schemes by name."""

from __future__ import annotations

from agentgym.rewards import OUTCOME, Gate, Scheme

TIER_WRONG_FORMAT, TIER_FORMAT, TIER_ANSWERED = -0.2, 0.2, 0.1
"""Search-R1 v0.3: what a broken format takes from a right answer, what a kept one earns, and any answer at all."""

DEFAULT = Scheme(
    weights={
        OUTCOME: 1.0,
        "f1": 0.2,
        "evidence": 0.1,
        "citations": 0.05,
        "format": 0.05,
        "redundant": -0.05,
        "searches": -0.01,
    },
    gates=(
        Gate(on="answered", at_least=1.0, opens=("f1", "evidence", "citations")),
        Gate(on=OUTCOME, at_least=1.0, opens=("format",)),
    ),
    averaged=frozenset({"format", "redundant", "searches"}),
)
SEARCH_R1 = Scheme(weights={OUTCOME: 1.0, "tier": 1.0})
RESEEK = Scheme(
    weights={OUTCOME: 1.0, "judge": 1.0},
    gates=(Gate(on=OUTCOME, at_least=1.0, opens=("judge",)),),
    averaged=frozenset({"judge"}),
)
"""Judgements are averaged over the turns: their plain sum can rival the outcome."""
ADASEARCH = Scheme(
    weights={OUTCOME: 1.0, "decision": 0.5}, gates=(Gate(on=OUTCOME, at_least=1.0, opens=("decision",)),)
)

SCHEMES = {
    "search-r1": SEARCH_R1,
    "reseek": RESEEK,
    "adasearch": ADASEARCH,
}


def tier(*, right: bool, readable: bool, answered: bool) -> float:
    """Return what Search-R1's tiers add to exact match.

    Together with it: right 1, right with a broken format 0.8, wrong 0.2, wrong with a broken format 0.1, no answer
    0.2, and nothing for no answer with a broken format.
    """
    if right:
        return 0.0 if readable else TIER_WRONG_FORMAT
    if readable:
        return TIER_FORMAT
    return TIER_ANSWERED if answered else 0.0
