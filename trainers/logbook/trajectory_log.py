"""Trajectories of training, written down as they are sampled, with the advantages that they are trained with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentgym.results.annotations import Annotation, Annotations
from agentgym.results.index import TrajectoryIndex
from agentgym.trainers.credit import CreditMode, RewardedEpisode, group_numbers
from agentgym.trainers.scores import TrainerLogprobs
from agentgym.trajectory import Trajectory, write_jsonl

FILE = "trajectories.jsonl"
"""Name of the file in a run's folder."""


class TrajectoryLog:
    """Records trajectories for `agentgym view`.

    Args:
        folder: The run's folder.
        mode: How the rewards become advantages.
        resume_at: Number of completed steps; later trajectories are removed, since a resumed run repeats those steps.

    Raises:
        UsageError: The file cannot be read or written.
    """

    def __init__(self, folder: Path, mode: CreditMode, *, resume_at: int = 0):
        self._path, self._mode = folder / FILE, str(mode)
        _truncate(self._path, resume_at)
        self._notes = Annotations(self._path)

    def write(self, trajectories: Sequence[Trajectory], advantages: Sequence[Sequence[float]]) -> None:
        """Append trajectories of a step, with the advantages of their turns."""
        if not trajectories:
            return
        write_jsonl(self._path, trajectories, append=True)
        self._notes.add(
            Annotation(trajectory.id, trajectory.training_step, "credit", {"mode": self._mode, "advantages": row})
            for trajectory, row in zip(trajectories, advantages, strict=True)
        )

    def write_scores(self, scored: Sequence[TrainerLogprobs]) -> None:
        """Annotate recorded trajectories with the trainer's log-probabilities of their tokens."""
        if scored:
            self._notes.add(
                Annotation(score.id, score.training_step, "trainer_logprobs", {"values": score.logprobs})
                for score in scored
            )


def recorded_positions(episodes: Sequence[RewardedEpisode], groups: int | None) -> list[int]:
    """Return the positions of the episodes in the first groups of a step; in all groups if `groups` is `None`."""
    return [place for place, number in enumerate(group_numbers(episodes)) if groups is None or number < groups]


def _truncate(path: Path, steps: int) -> None:
    """Cut off a file before the first trajectory of a step from `steps` on."""
    if not path.is_file():
        return
    later = [entry.offset for entry in TrajectoryIndex.open(path).entries if (entry.training_step or 0) >= steps]
    if later:
        with path.open("rb+") as file:
            file.truncate(later[0])
