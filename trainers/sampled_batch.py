"""A step's batch of episodes, spread over processes.

Whole trajectories stay in the process that sampled them; each process has the numbers of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentgym.core.endings import Ending
from agentgym.core.rewards import OUTCOME, SOLVED_AT
from agentgym.core.trajectory import Tokens, Trajectory
from agentgym.trainers import ranks


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
    component: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    token_count: int = 0
    """Tokens of the prompt and the completion."""
    sampled_tokens: int = 0

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
            component=trajectory.component,
            counts=trajectory.counts,
            token_count=len(tokens) if tokens else 0,
            sampled_tokens=tokens.sampled if tokens else 0,
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


@dataclass(frozen=True)
class SampledBatch:
    """A batch of episodes. All processes must call its methods, with the same positions in ascending order."""

    numbers: Sequence[EpisodeNumbers]
    """Of the episodes of all processes."""
    own: Sequence[Trajectory]
    """The trajectories of this process."""
    first: int = 0
    """Position of the first of them in the whole batch."""

    @classmethod
    def of(cls, trajectories: Sequence[Trajectory]) -> SampledBatch:
        """Return the batch of a run with one process."""
        return cls([EpisodeNumbers.of(trajectory) for trajectory in trajectories], trajectories)

    def tokens(self, positions: Sequence[int]) -> list[Tokens]:
        """Return the tokens of some episodes to every process. Those episodes must have tokens."""
        return ranks.gather([t.tokens for t in self._own_at(positions) if t.tokens is not None])

    def on_main(self, positions: Sequence[int]) -> list[Trajectory]:
        """Return some trajectories to the main process, and none to the others."""
        return ranks.gather_on_main(self._own_at(positions))

    def _own_at(self, positions: Sequence[int]) -> list[Trajectory]:
        mine = range(self.first, self.first + len(self.own))
        return [self.own[position - self.first] for position in positions if position in mine]
