"""Recorded episodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agentgym.core.endings import Reason
from agentgym.core.trajectory import Trajectory, Turn


def trajectory(number: int, **changes: object) -> Trajectory:
    """Return the recording of an episode of the guessing game, solved in its second turn."""
    rewards = [{"outcome": 0.0, "format": 1.0}, {"outcome": 1.0, "format": 0.5}]
    trajectory = Trajectory(
        id=f"guess/test/{number}#0",
        env_id="agentgym/guess-v0",
        task_id=f"guess/test/{number}",
        task_hash="abc",
        seed=number,
        policy="fake",
        opening=[{"role": "user", "content": "Guess — \ud800."}],
        tags=("easy",),
        turns=[Turn("x" * (number % 100), [], channels, 0.5) for channels in rewards],
        reason=Reason.SOLVED,
        counts={"calls": 2, "tool_errors": 1},
    )
    return replace(trajectory, **changes)


def episode_of(task: str, solved: bool, attempt: int = 0, *, turns: int = 1, **values: Any) -> Trajectory:
    """Return an episode that is paid for its outcome and earns 0.25 of `format` in every turn."""
    played = [Turn("a", [], {"outcome": 0.0, "format": 0.25}, 0.0) for _ in range(turns)]
    if played:
        played[-1].rewards["outcome"] = played[-1].reward = float(solved)
    facts: dict[str, Any] = {"env_id": "agentgym/x-v0", "policy": "p", "seed": 0, "opening": [], "turns": played}
    facts |= {"task_id": task, "task_hash": f"hash of {task}", "attempt": attempt, "reason": Reason.ANSWERED}
    return Trajectory(id=f"{task}#{attempt}", **facts | values)
