"""Recorded episodes of the guessing game."""

from __future__ import annotations

from dataclasses import replace

from agentgym.core.endings import Reason
from agentgym.core.trajectory import Trajectory, Turn


def trajectory(number: int, **changes: object) -> Trajectory:
    """Return the recording of an episode solved in its second turn."""
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
