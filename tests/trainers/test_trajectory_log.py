from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.endings import Reason
from agentgym.envs.guess import GuessEnv
from agentgym.results.annotations import Annotations
from agentgym.trajectory import Trajectory, Turn, read_jsonl
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


def log(folder: Path, groups: int | None, **options: int):
    from agentgym.trainers.credit import Credit, CreditMode
    from agentgym.trainers.logbook.trajectory_log import TrajectoryLog

    return TrajectoryLog(folder, groups, Credit(mode=CreditMode.GATED, scheme=GuessEnv.scheme), **options)


def kept(folder: Path) -> list[tuple[int | None, str]]:
    return [(one.training_step, one.id) for one in read_jsonl(folder / "trajectories.jsonl")]


@each_row("groups, count", [(2, 4), (None, 6), (0, 0)])
def test_whole_groups_of_each_step_are_kept(tmp_path: Path, groups: int | None, count: int):
    written = log(tmp_path, groups)
    for step in range(2):
        written.write(batch(step))
    assert (tmp_path / "trajectories.jsonl").exists() == bool(count)
    if count:
        assert kept(tmp_path) == [(step, one.id) for step in range(2) for one in batch(step)[:count]]


def test_the_advantages_are_those_of_training(tmp_path: Path):
    log(tmp_path, 1).write(batch(4))
    notes = Annotations(tmp_path / "trajectories.jsonl")
    lost, won = (notes.of(one.id, 4)["credit"] for one in batch(4)[:2])
    assert (lost["mode"], len(won["advantages"])) == ("gated", 2)
    assert won["advantages"][0] == -lost["advantages"][0] > 0


def test_the_trainers_scores_are_noted_beside_the_trajectories(tmp_path: Path):
    from agentgym.trainers.scores import Scored

    written = log(tmp_path, 1)
    written.write(batch(4))
    written.write_scores([Scored(batch(4)[1].id, 4, [-0.5, 0.0])])
    written.write_scores([])
    notes = Annotations(tmp_path / "trajectories.jsonl")
    assert notes.of(batch(4)[1].id, 4)["trainer_logprobs"] == {"values": [-0.5, 0.0]}
    assert "trainer_logprobs" not in notes.of(batch(4)[0].id, 4)


def test_a_resumed_run_forgets_the_steps_that_it_repeats(tmp_path: Path):
    written = log(tmp_path, 1)
    for step in range(4):
        written.write(batch(step))
    log(tmp_path, 1, resume_at=2).write(batch(2))
    assert [step for step, _ in kept(tmp_path)] == [0, 0, 1, 1, 2, 2]
