"""Whether code was used where a task needs it, which R1-Code-Interpreter (arXiv 2505.21668) trains models to decide."""

from __future__ import annotations

from collections.abc import Iterable

from agentgym.statistics import Decisions
from agentgym.trajectory import Trajectory


def use_of_code(trajectories: Iterable[Trajectory]) -> dict[str, float]:
    """Return the shares of episodes that ran code, of tasks that need it and of others, and the F1 of using it.

    The F1 is left out if all tasks need code or none do. Episodes whose recording does not say whether the task needs
    code are ignored.
    """
    pairs = [(_used(t), bool(t.details["needs_code"])) for t in trajectories if "needs_code" in t.details]
    decisions = Decisions.of(pairs)
    shares: dict[str, float] = {}
    if needed := decisions.right + decisions.missed:
        shares["code used where needed"] = decisions.right / needed
    if others := decisions.wrong + decisions.rejected:
        shares["code used where not needed"] = decisions.wrong / others
    return shares | {"code use F1": decisions.f1} if needed and others else shares


def _used(trajectory: Trajectory) -> bool:
    return any(turn.rewards.get("used_code", 0.0) > 0 for turn in trajectory.turns)
