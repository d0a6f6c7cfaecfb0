"""`TrainerScores`: the trainer's own log-probabilities of sampled tokens, kept for the records of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from agentgym.trajectory import Trajectory

_DIGITS = 3
"""Digits after the point: differences below a thousandth of a nat are those of the arithmetic."""
_LEAST = -1000.0
"""Stands for a probability of 0, which JSON cannot hold as a logarithm."""


@dataclass(frozen=True)
class TrainerLogprobs:
    """How likely the trainer finds the tokens of a trajectory."""

    id: str
    training_step: int | None
    logprobs: list[float]
    """One for each completion token; 0.0 where it was not sampled."""


class TrainerScores:
    """Collects scores of some trajectories while the trainer computes them for its loss."""

    def __init__(self) -> None:
        self.wanted: frozenset[str] = frozenset()
        """Ids of the trajectories to keep scores of."""
        self._rows: Sequence[Trajectory] = ()
        self._found: list[TrainerLogprobs] = []

    def begin(self, trajectories: Sequence[Trajectory]) -> None:
        """Note the trajectories of a batch, in the order of its rows."""
        self._rows = trajectories

    def add(self, rows: torch.Tensor, logprobs: torch.Tensor, mask: torch.Tensor) -> None:
        """Keep scores of those rows that are wanted.

        Args:
            rows: Position of each row in the batch.
            logprobs: `(rows, completion tokens)`.
            mask: The same shape; 1 at sampled tokens.
        """
        for place, row in enumerate(rows.tolist()):
            trajectory = self._rows[row]
            if trajectory.id not in self.wanted or trajectory.tokens is None:
                continue
            known = torch.nan_to_num(logprobs[place].float(), nan=0.0, neginf=_LEAST).where(mask[place].bool(), 0.0)
            values = known[: len(trajectory.tokens.completion_ids)].tolist()
            rounded = [round(value, _DIGITS) + 0.0 for value in values]  # adding 0.0 makes -0.0 plain
            self._found.append(TrainerLogprobs(trajectory.id, trajectory.training_step, rounded))

    def take(self) -> list[TrainerLogprobs]:
        """Return what was found since the last time."""
        found, self._found = self._found, []
        return found
