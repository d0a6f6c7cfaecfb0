"""The reward schemes of `SearchEnv`: the default, and published schemes by name.

As published, the schemes pay for junk: Search-R1 for any answer in the right format, ReSeek for verdicts on pointless
searches, AdaSearch for deciding to search without doing so. The published values are kept, but rewards that any legal
action can earn are paid only to episodes that have shown evidence (see each scheme). An episode without evidence is
paid for its outcome alone.
"""

from __future__ import annotations

from agentgym.envs.search.judging import RIGHT
from agentgym.rewards import OUTCOME, Gate, Scheme

TIER_WRONG_FORMAT, TIER_FORMAT, TIER_ANSWERED = -0.2, 0.2, 0.1
"""Search-R1 v0.3: the cost of a broken format for a right answer, the reward of a correct format, and of any answer."""


def _with_evidence(*opens: str) -> Gate:
    """Return the gate that lets channels count in episodes that have shown evidence."""
    return Gate(on="evidence", at_least=0.0, strict=True, opens=opens)


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
        Gate(on="answered", at_least=1.0, opens=("f1", "evidence")),
        _with_evidence("f1"),
        Gate(on="f1", at_least=0.5, opens=("f1",)),
        Gate(on=OUTCOME, at_least=1.0, opens=("citations", "format", "redundant", "searches")),
    ),
    averaged=frozenset({"format", "redundant", "searches"}),
)
"""A failed episode is paid for the evidence it has shown and for a partly right answer. Its searches cost nothing:
otherwise not searching would pay more."""
SEARCH_R1 = Scheme(
    weights={OUTCOME: 1.0, "tier": 1.0, "broken": TIER_WRONG_FORMAT},
    gates=(_with_evidence("tier"),),
)
"""Search-R1's tiers. Without evidence, a wrong or missing answer earns nothing; in the paper's code it earns 0.1 or
0.2."""
RESEEK = Scheme(
    weights={OUTCOME: 1.0, "judged_right": 1.0, "judged_wrong": 1.0},
    gates=(_with_evidence("judged_right"),),
    averaged=frozenset({"judged_wrong"}),
    capped={"judged_right": RIGHT},
)
"""ReSeek's values, but right verdicts are paid once, and only if evidence was shown, and the cost of wrong ones is
averaged over the turns. The paper adds them all up, so that verdicts on useless searches can rival the outcome."""
ADASEARCH = Scheme(
    weights={OUTCOME: 1.0, "rightly_searched": 0.5, "rightly_known": 0.5},
    gates=(_with_evidence("rightly_searched"), Gate(on=OUTCOME, at_least=1.0, opens=("rightly_known",))),
)
"""AdaSearch's reward of a right decision, paid only if the policy acts on it: a decision to search once evidence was
shown, a decision to answer directly if the answer is right. The paper pays for the decision alone."""

SCHEMES = {
    "search-r1": SEARCH_R1,
    "reseek": RESEEK,
    "adasearch": ADASEARCH,
}


def tier(*, right: bool, readable: bool, answered: bool) -> float:
    """Return the reward of Search-R1's tiers on top of exact match.

    Together with it: right 1, right with a broken format 0.8, wrong 0.2, wrong with a broken format 0.1, no answer
    0.2, and nothing for no answer with a broken format.
    """
    if right:
        return 0.0 if readable else TIER_WRONG_FORMAT
    if readable:
        return TIER_FORMAT
    return TIER_ANSWERED if answered else 0.0
