"""The records of a run survive a crash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.core.endings import Reason
from agentgym.core.trajectory import Trajectory, Turn, read_jsonl
from agentgym.envs.guess import GuessEnv
from agentgym.eval.results.annotations import Annotations
from agentgym.trainers.credit import Credit, CreditMode, group_numbers
from agentgym.trainers.logbook.records import (
    MetricsFile,
    TrajectoryLog,
    keep_size,
    read_metrics,
    recorded_positions,
    recorded_size,
)
from agentgym.trainers.run_folder import COMPLETE, last_checkpoint
from agentgym.trainers.scores import TrainerLogprobs
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]


def written(path: Path, steps: int, cut: str = "") -> None:
    path.write_text("".join(json.dumps({"step": step + 1}) + "\n" for step in range(steps)) + cut)


def steps(path: Path) -> list[int]:
    return [line["step"] for line in read_metrics(path)]


@each_row("resume_at, steps_before", [(None, []), (0, []), (2, [1, 2]), (9, [1, 2, 3])])
def test_a_resumed_run_forgets_the_steps_it_does_again(tmp_path: Path, resume_at: int | None, steps_before: list[int]):
    path = tmp_path / "m.jsonl"
    written(path, 3, cut='{"step": 4, "re')
    file = MetricsFile(path, resume_at=resume_at)
    file.write({"step": 7})
    file.close()
    assert steps(path) == [*steps_before, 7]


def test_a_line_that_was_cut_off_is_passed_over(tmp_path: Path):
    written(tmp_path / "m.jsonl", 2, cut='{"step"')
    assert steps(tmp_path / "m.jsonl") == [1, 2]
    assert steps(tmp_path / "none.jsonl") == []


def test_the_newest_complete_checkpoint_is_found_by_its_number(tmp_path: Path):
    for name in ("9", "10", "100", "200", "best"):
        (tmp_path / f"checkpoint-{name}").mkdir()
    for name in ("9", "10", "100"):
        (tmp_path / f"checkpoint-{name}" / COMPLETE).touch()
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-100"
    assert last_checkpoint(tmp_path / "none") is None


# Trajectories.


def batch(step: int) -> list[Trajectory]:
    """Return three groups of two: one of each is solved."""
    return [
        Trajectory(
            f"{task}#{2 * task + member}", "agentgym/guess-v0", f"guess/train/{task}", "abc", task, "fake", [],
            turns=[Turn("a", [], {"outcome": 0.0}, 0.0), Turn("b", [], {"outcome": float(member)}, float(member))],
            reason=Reason.ANSWERED, training_step=step,
        )
        for task in range(3)
        for member in range(2)
    ]  # fmt: skip


CREDIT = Credit(mode=CreditMode.GATED, scheme=GuessEnv.scheme)


def write(folder: Path, step: int, groups: int | None) -> None:
    """Record the first groups of a step, as a run does."""
    sampled = batch(step)
    positions = recorded_positions(sampled, groups)
    advantages = CREDIT.advantages(sampled, group_numbers(sampled))
    log = TrajectoryLog(folder, CREDIT.mode, resume_at=step)
    log.write([sampled[position] for position in positions], [advantages[position] for position in positions])


def recorded(folder: Path) -> list[tuple[int | None, str]]:
    return [(trajectory.training_step, trajectory.id) for trajectory in read_jsonl(folder / "trajectories.jsonl")]


@each_row("groups, count", [(2, 4), (None, 6)])
def test_whole_groups_of_each_step_are_recorded(tmp_path: Path, groups: int | None, count: int):
    for step in range(2):
        write(tmp_path, step, groups)
    assert recorded(tmp_path) == [(step, t.id) for step in range(2) for t in batch(step)[:count]]


def test_advantages_and_scores_are_noted_beside_the_trajectories(tmp_path: Path):
    write(tmp_path, 4, 1)
    lost, won = batch(4)[:2]
    TrajectoryLog(tmp_path, CREDIT.mode, resume_at=5).write_scores([TrainerLogprobs(won.id, 4, [-0.5, 0.0])])
    notes = Annotations(tmp_path / "trajectories.jsonl")
    credit = [notes.of(trajectory.id, 4)["credit"] for trajectory in (lost, won)]
    assert (credit[0]["mode"], len(credit[1]["advantages"])) == ("gated", 2)
    assert credit[1]["advantages"][0] == -credit[0]["advantages"][0] > 0
    assert notes.of(won.id, 4)["trainer_logprobs"] == {"values": [-0.5, 0.0]}
    assert "trainer_logprobs" not in notes.of(lost.id, 4)


def test_a_resumed_run_drops_the_steps_that_it_repeats(tmp_path: Path):
    for step in range(4):
        write(tmp_path, step, 1)
    write(tmp_path, 2, 1)
    assert [step for step, _ in recorded(tmp_path)] == [0, 0, 1, 1, 2, 2]


def test_a_checkpoint_records_how_much_of_the_log_to_keep(tmp_path: Path):
    """An episode that took several steps is recorded long after its first one."""
    log = TrajectoryLog(tmp_path, CREDIT.mode)
    assert (recorded_size(None), recorded_size(tmp_path)) == (None, None)
    log.write(batch(3)[:2], [[0.0]] * 2)
    keep_size(tmp_path, log)
    log.write(batch(0)[2:4], [[0.0]] * 2)
    TrajectoryLog(tmp_path, CREDIT.mode, resume_at=4, size=recorded_size(tmp_path))
    assert [step for step, _ in recorded(tmp_path)] == [3, 3]
