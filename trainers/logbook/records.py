"""The files that a resumed run relies on: metrics as JSON lines, and marks on complete checkpoints."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from accelerate import PartialState
from transformers import TrainerCallback

from agentgym.base.errors import UsageError
from agentgym.base.json_lines import json_lines
from agentgym.core.trajectory import Trajectory, write_jsonl
from agentgym.eval.results.annotations import Annotation, Annotations
from agentgym.eval.results.index import TrajectoryIndex
from agentgym.trainers.credit import CreditMode, RewardedEpisode, group_numbers
from agentgym.trainers.run_folder import COMPLETE
from agentgym.trainers.scores import TrainerLogprobs


class MetricsFile:
    """A file with one JSON object per line, flushed after each line.

    Args:
        path: The file.
        resume_at: Keep the lines up to this step, since a resumed run repeats later steps. `None` keeps nothing.
    """

    def __init__(self, path: Path, *, resume_at: int | None = None):
        lines = [line for line in read_metrics(path) if resume_at is not None and line["step"] <= resume_at]
        unfinished = path.with_suffix(".tmp")
        unfinished.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        unfinished.replace(path)
        self._file = path.open("a", encoding="utf-8")

    def write(self, line: dict[str, Any]) -> None:
        """Append a line."""
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a metrics file, except a last line that a crash cut off.

    Raises:
        UsageError: Another line does not hold metrics; the message names the file and the line.
    """
    if not path.is_file():
        return
    for where, line in json_lines(path, "a line of metrics", allow_torn=True):
        if type(line.get("step")) is not int:
            raise UsageError(f"{where}: not a line of metrics: it has no step")
        yield line


class MarkComplete(TrainerCallback):
    """Marks each checkpoint once it is complete, with an empty file `complete`.

    Args:
        describe: Writes more files into a checkpoint's folder, in the main process.
        keep: Does so in every process.
    """

    def __init__(
        self, describe: Callable[[Path], None] | None = None, keep: Callable[[Path], None] = lambda folder: None
    ):
        self._describe, self._keep = describe, keep

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Mark the newest checkpoint."""
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if folder.is_dir():
            self._keep(folder)
        PartialState().wait_for_everyone()  # each process writes its part
        if state.is_world_process_zero and folder.is_dir():
            if self._describe is not None:
                self._describe(folder)
            (folder / COMPLETE).touch()
            os.sync()


FILE = "trajectories.jsonl"
"""Name of the file in a run's folder."""
_SIZE = f"{FILE}.size"
"""Name of the file in a checkpoint that holds the size of the trajectory log in bytes."""


class TrajectoryLog:
    """Records trajectories for `agentgym view`.

    Args:
        folder: The run's folder.
        mode: How the rewards become advantages.
        resume_at: Number of completed steps; later trajectories are removed, since a resumed run repeats those steps.
        size: Bytes to keep instead, if the checkpoint records them: an episode may begin steps before it is recorded.

    Raises:
        UsageError: The file cannot be read or written.
    """

    def __init__(self, folder: Path, mode: CreditMode, *, resume_at: int = 0, size: int | None = None):
        self._path, self._mode = folder / FILE, str(mode)
        _truncate(self._path, resume_at, size)
        self._notes = Annotations(self._path)

    @property
    def size(self) -> int:
        """Bytes of the recorded trajectories."""
        return self._path.stat().st_size if self._path.is_file() else 0

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


def keep_size(checkpoint: Path, log: TrajectoryLog) -> None:
    """Record in a checkpoint how far the trajectory log has come."""
    (checkpoint / _SIZE).write_text(str(log.size), encoding="utf-8")


def recorded_size(checkpoint: Path | None) -> int | None:
    """Return the bytes of the trajectory log at a checkpoint, if it records them."""
    path = None if checkpoint is None else checkpoint / _SIZE
    return int(path.read_text(encoding="utf-8")) if path is not None and path.is_file() else None


def _truncate(path: Path, steps: int, size: int | None) -> None:
    """Cut off a file after `size` bytes, by default before the first trajectory of a step from `steps` on."""
    if not path.is_file():
        return
    if size is not None and size <= path.stat().st_size:
        os.truncate(path, size)
        return
    later = [entry.offset for entry in TrajectoryIndex.open(path).entries if (entry.training_step or 0) >= steps]
    if later:
        with path.open("rb+") as file:
            file.truncate(later[0])
