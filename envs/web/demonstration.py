"""Shop-R1's reward for an action where a demonstration shows the right one (arXiv 2507.17842, from its manuscript).

A readable action, its type, that its attributes are there and how like the demonstrated ones they are. In the paper
the likeness of long text counts a thousandfold (DARS), which is a priority and needs normalised groups; here the scale
is an argument and 1 by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

READABLE, SAME_TYPE = 0.5, 0.3
COUNTS_ABOVE = 0.75
"""ROUGE-L up to this counts as nothing."""
HIGHEST = 2.1
"""The greatest reward with a scale of 1."""

CLICK, TYPE, END = "click", "type", "terminate"


@dataclass(frozen=True)
class Act:
    """An action as demonstrations describe it."""

    kind: str
    """`click`, `type`, `terminate`, or any other word for an action without attributes."""
    name: str = ""
    """What the element is called."""
    text: str = ""
    """What is typed."""


def action_reward(said: Act, shown: Act, scale: float = 1.0) -> float:
    """Return the reward of action `said` where `shown` was demonstrated; `scale` is the paper's DARS (1000 there)."""
    if said.kind != shown.kind:
        return READABLE
    reward = READABLE + SAME_TYPE
    if said.kind == CLICK:
        return reward + 0.2 * bool(said.name) + scale * _counted(said.name, shown.name)
    if said.kind == TYPE:
        reward += 0.1 * bool(said.name) + 0.1 * bool(said.text)
        return reward + 0.1 * _counted(said.name, shown.name) + scale * _counted(said.text, shown.text)
    return reward


def rouge_l(said: str, shown: str) -> float:
    """Return the F1 of the longest common subsequence of words."""
    words, wanted = said.lower().split(), shown.lower().split()
    common = _longest(words, wanted)
    return 2 * common / (len(words) + len(wanted)) if common else 0.0


def _counted(said: str, shown: str) -> float:
    likeness = rouge_l(said, shown)
    return likeness if likeness > COUNTS_ABOVE else 0.0


def _longest(first: Sequence[str], second: Sequence[str]) -> int:
    row = [0] * (len(second) + 1)
    for word in first:
        before = 0
        for place, other in enumerate(second, start=1):
            before, row[place] = row[place], before + 1 if word == other else max(row[place], row[place - 1])
    return row[-1]
