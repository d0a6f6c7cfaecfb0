"""AdaSearch's first stage: decide whether to search at all, and how good a policy is at that over many episodes.

The positive class is "no search needed"; a policy that always searches has an F1 of 0 (AdaSearch, 2025). Whether a
search is needed is the task's own label, or one made of a model's solve rate without searching.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from agentgym.trajectory import Trajectory

CHANNEL, KNOWN = "decision", "decided_known"


class Way(StrEnum):
    """How to go about a question."""

    KNOW = "know"
    SEARCH = "search"


def labels(solve_rates: Mapping[str, float], at_least: float) -> dict[str, bool]:
    """Return per task id whether it needs a search: those a model solves less often without one than `at_least`."""
    return {task_id: rate < at_least for task_id, rate in solve_rates.items()}


def decision_f1(trajectories: Iterable[Trajectory]) -> dict[str, float]:
    """Return precision, recall and F1 of deciding that no search is needed; nothing where no episode decided."""
    right = wrong = missed = decided = 0
    for trajectory in trajectories:
        for turn in trajectory.turns:
            if CHANNEL not in turn.rewards or turn.rewards.get("decided", 0.0) == 0.0:
                continue
            decided += 1
            known, correct = turn.rewards[KNOWN] > 0, turn.rewards[CHANNEL] > 0
            right += known and correct
            wrong += known and not correct
            missed += not known and not correct
    if not decided:
        return {}
    precision = right / (right + wrong) if right + wrong else 0.0
    recall = right / (right + missed) if right + missed else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return {"decision precision": precision, "decision recall": recall, "decision F1": f1}
