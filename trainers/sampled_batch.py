"""A step's batch of episodes, spread over processes.

Whole trajectories stay in the process that sampled them; each process has the numbers of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym.core.trajectory import Tokens, Trajectory
from agentgym.trainers import ranks
from agentgym.trainers.episode_numbers import EpisodeNumbers


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
