"""Shop-R1's reward for an action, compared with a demonstrated one (arXiv 2507.17842).

It rewards a readable action, its type, the presence of its attributes and their similarity to the demonstrated ones.
The paper multiplies the similarity of long text by 1000 (DARS), which needs normalised groups; here the factor is the
argument `scale`, 1 by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

READABLE, SAME_TYPE = 0.5, 0.3
COUNTS_ABOVE = 0.75
"""ROUGE-L up to this counts as 0."""
HIGHEST = 2.1
"""The highest reward with a scale of 1."""

CLICK, TYPE, END = "click", "type", "terminate"


@dataclass(frozen=True)
class Act:
    """An action in the form of demonstrations."""

    kind: str
    """`click`, `type`, `terminate`, or any other word for an action without attributes."""
    name: str = ""
    """Name of the element."""
    text: str = ""
    """Typed text."""


def action_reward(action: Act, demonstrated: Act, scale: float = 1.0) -> float:
    """Return the reward of `action`, given the `demonstrated` one; `scale` is the paper's DARS (1000 there)."""
    if action.kind != demonstrated.kind:
        return READABLE
    reward = READABLE + SAME_TYPE
    if action.kind == CLICK:
        return reward + 0.2 * bool(action.name) + scale * _counted(action.name, demonstrated.name)
    if action.kind == TYPE:
        reward += 0.1 * bool(action.name) + 0.1 * bool(action.text)
        return (
            reward + 0.1 * _counted(action.name, demonstrated.name) + scale * _counted(action.text, demonstrated.text)
        )
    return reward


def rouge_l(text: str, reference: str) -> float:
    """Return the F1 of the longest common subsequence of words."""
    words, expected = text.lower().split(), reference.lower().split()
    common = _longest(words, expected)
    return 2 * common / (len(words) + len(expected)) if common else 0.0


def _counted(text: str, reference: str) -> float:
    similarity = rouge_l(text, reference)
    return similarity if similarity > COUNTS_ABOVE else 0.0


def _longest(first: Sequence[str], second: Sequence[str]) -> int:
    row = [0] * (len(second) + 1)
    for word in first:
        before = 0
        for place, other in enumerate(second, start=1):
            before, row[place] = row[place], before + 1 if word == other else max(row[place], row[place - 1])
    return row[-1]
