from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.core.endings import Reason
from agentgym.core.trajectory import Trajectory, Turn, read_jsonl
from agentgym.envs.guess import GuessEnv
from agentgym.eval.results.annotations import Annotations
from agentgym.trainers.credit import Credit, CreditMode, group_numbers
from tests.rows import each_row

pytestmark = pytest.mark.train


def batch(step: int) -> list[Trajectory]:
    """Return three groups of two: one of each is solved."""
    return [
        Trajectory(
            id=f"guess/train/{task}#{2 * task + member}",
            env_id="agentgym/guess-v0",
            task_id=f"guess/train/{task}",
            task_hash="abc",
            seed=task,
            policy="fake",
            opening=[],
            turns=[Turn("a", [], {"outcome": 0.0}, 0.0), Turn("b", [], {"outcome": float(member)}, float(member))],
            reason=Reason.ANSWERED,
            training_step=step,
        )
        for task in range(3)
        for member in range(2)
    ]


CREDIT = Credit(mode=CreditMode.GATED, scheme=GuessEnv.scheme)


def write(folder: Path, step: int, groups: int | None) -> None:
    """Record the first groups of a step, as a run does."""
    from agentgym.trainers.logbook.records import TrajectoryLog, recorded_positions

    sampled = batch(step)
    positions = recorded_positions(sampled, groups)
    advantages = CREDIT.advantages(sampled, group_numbers(sampled))
    log = TrajectoryLog(folder, CREDIT.mode, resume_at=step)
    log.write([sampled[position] for position in positions], [advantages[position] for position in positions])


def recorded(folder: Path) -> list[tuple[int | None, str]]:
    return [(trajectory.training_step, trajectory.id) for trajectory in read_jsonl(folder / "trajectories.jsonl")]


@each_row("groups, count", [(2, 4), (None, 6), (0, 0)])
def test_whole_groups_of_each_step_are_recorded(tmp_path: Path, groups: int | None, count: int):
    for step in range(2):
        write(tmp_path, step, groups)
    assert (tmp_path / "trajectories.jsonl").exists() == bool(count)
    if count:
        assert recorded(tmp_path) == [(step, t.id) for step in range(2) for t in batch(step)[:count]]


def test_advantages_and_scores_are_noted_beside_the_trajectories(tmp_path: Path):
    from agentgym.trainers.logbook.records import TrajectoryLog
    from agentgym.trainers.scores import TrainerLogprobs

    write(tmp_path, 4, 1)
    lost, won = batch(4)[:2]
    log = TrajectoryLog(tmp_path, CREDIT.mode, resume_at=5)
    log.write_scores([TrainerLogprobs(won.id, 4, [-0.5, 0.0])])
    log.write_scores([])
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
