"""Trajectories of training, written down as they are sampled, with the advantages that they are trained with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentgym.results.annotations import Annotation, Annotations
from agentgym.results.index import TrajectoryIndex
from agentgym.trainers.credit import Credit, group_numbers
from agentgym.trainers.scores import Scored
from agentgym.trajectory import Trajectory, write_jsonl

FILE = "trajectories.jsonl"
"""Name of the file in a run's folder."""


class TrajectoryLog:
    """Keeps whole groups of each step for `agentgym view`.

    Args:
        folder: The run's folder.
        groups: Groups of each step to keep; `None` keeps all.
        credit: Computes the advantages.
        resume_at: Steps that are done; what was written later is removed, since those steps are repeated. `None` keeps
            nothing.

    Raises:
        UsageError: The file cannot be read or written.
    """

    def __init__(self, folder: Path, groups: int | None, credit: Credit, *, resume_at: int | None = None):
        self._path, self._groups, self._credit = folder / FILE, groups, credit
        _forget(self._path, 0 if resume_at is None else resume_at)
        self._notes = Annotations(self._path)

    def write(self, sampled: Sequence[Trajectory]) -> None:
        """Append the first groups of a step, with their advantages."""
        advantages = self._credit.advantages(sampled, group_numbers(sampled))
        kept = kept_places(sampled, self._groups)
        if not kept:
            return
        write_jsonl(self._path, [sampled[place] for place in kept], append=True)
        mode = str(self._credit.mode)
        self._notes.add(
            Annotation(one.id, one.training_step, "credit", {"mode": mode, "advantages": advantages[place]})
            for place, one in ((place, sampled[place]) for place in kept)
        )

    def write_scores(self, scored: Sequence[Scored]) -> None:
        """Annotate trajectories that were written with the trainer's log-probabilities of their tokens."""
        if scored:
            self._notes.add(
                Annotation(one.id, one.training_step, "trainer_logprobs", {"values": one.logprobs}) for one in scored
            )


def kept_places(sampled: Sequence[Trajectory], groups: int | None) -> list[int]:
    """Return the positions of the trajectories in the first groups of a step; in all groups if that is `None`."""
    return [place for place, number in enumerate(group_numbers(sampled)) if groups is None or number < groups]


def _forget(path: Path, steps: int) -> None:
    """Cut off a file before the first trajectory of a step from `steps` on."""
    if not path.is_file():
        return
    later = [entry.offset for entry in TrajectoryIndex.open(path).entries if (entry.training_step or 0) >= steps]
    if later:
        with path.open("rb+") as file:
            file.truncate(later[0])
