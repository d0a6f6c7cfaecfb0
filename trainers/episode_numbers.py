"""The numbers of an episode that credit and metrics need. They are small enough to be sent to all processes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from agentgym.core.endings import Ending
from agentgym.core.rewards import OUTCOME, SOLVED_AT
from agentgym.core.trajectory import Trajectory


@dataclass(frozen=True)
class EpisodeNumbers:
    """The values of a trajectory that credit and metrics read, named as in `Trajectory`."""

    id: str
    task_id: str
    seed: int | None
    ending: Ending | None
    channels: list[dict[str, float]]
    """Raw reward channels, turn by turn."""
    model_turns: range
    """One item per turn of the model."""
    cut_turns: list[bool]
    """Whether a limit cut off each turn of the model."""
    component: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    token_count: int = 0
    """Tokens of the prompt and the completion."""
    sampled_tokens: int = 0
    sampled_by: dict[int, int] = field(default_factory=dict)
    """Sampled tokens by the version of the weights."""

    @classmethod
    def of(cls, trajectory: Trajectory) -> EpisodeNumbers:
        """Return the numbers of a trajectory."""
        tokens = trajectory.tokens
        return cls(
            id=trajectory.id,
            task_id=trajectory.task_id,
            seed=trajectory.seed,
            ending=trajectory.ending,
            channels=trajectory.channels,
            model_turns=range(len(trajectory.model_turns)),
            cut_turns=trajectory.cut_turns,
            component=trajectory.component,
            counts=trajectory.counts,
            token_count=len(tokens) if tokens else 0,
            sampled_tokens=tokens.sampled if tokens else 0,
            sampled_by=dict(Counter(version for version in tokens.versions if version >= 0)) if tokens else {},
        )

    @property
    def failed(self) -> bool:
        """Whether something around the model broke."""
        return self.ending is Ending.FAILED

    @property
    def outcome(self) -> float:
        """The episode's outcome channel."""
        return sum(channels.get(OUTCOME, 0.0) for channels in self.channels)

    @property
    def success(self) -> bool:
        """Whether the task was solved."""
        return not self.failed and self.outcome >= SOLVED_AT
