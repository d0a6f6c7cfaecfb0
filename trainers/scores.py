"""`TrainerScores`: the trainer's own log-probabilities of sampled tokens, for the records of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from agentgym.core.trajectory import Trajectory

_DIGITS = 3
"""Digits after the point: smaller differences are arithmetic noise."""
_LEAST = -1000.0
"""Replaces the logarithm of 0, which JSON cannot represent."""


@dataclass(frozen=True)
class TrainerLogprobs:
    """The trainer's log-probabilities of a trajectory's tokens."""

    id: str
    training_step: int | None
    logprobs: list[float]
    """One for each completion token; 0.0 where it was not sampled."""


class TrainerScores:
    """Collects scores of some trajectories while the trainer computes them for its loss."""

    def __init__(self) -> None:
        self.selected: frozenset[str] = frozenset()
        """Ids of the trajectories to keep scores of."""
        self._rows: Sequence[Trajectory] = ()
        self._scores: list[TrainerLogprobs] = []

    def begin(self, trajectories: Sequence[Trajectory]) -> None:
        """Note the trajectories of a batch, in the order of its rows."""
        self._rows = trajectories

    def add(self, rows: torch.Tensor, logprobs: torch.Tensor, mask: torch.Tensor) -> None:
        """Record the scores of the rows in `selected` whose sampled tokens all have one.

        Args:
            rows: Position of each row in the batch.
            logprobs: `(rows, completion tokens)`.
            mask: The same shape; 1 at sampled tokens that carry loss.
        """
        for place, row in enumerate(rows.tolist()):
            trajectory = self._rows[row]
            tokens = trajectory.tokens
            if trajectory.id not in self.selected or tokens is None or int(mask[place].sum()) < tokens.sampled:
                continue  # TRL computes no scores of tokens without loss
            scores = torch.nan_to_num(logprobs[place].float(), nan=0.0, neginf=_LEAST).where(mask[place].bool(), 0.0)
            values = scores[: len(tokens.completion_ids)].tolist()
            rounded = [round(value, _DIGITS) + 0.0 for value in values]  # adding 0.0 makes -0.0 plain
            self._scores.append(TrainerLogprobs(trajectory.id, trajectory.training_step, rounded))

    def take(self) -> list[TrainerLogprobs]:
        """Return the scores since the last call."""
        scores, self._scores = self._scores, []
        return scores
