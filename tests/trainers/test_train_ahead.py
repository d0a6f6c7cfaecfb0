"""Whole runs whose episodes run ahead: killed and resumed, in one process and in two."""

from __future__ import annotations

import io
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

from rich.console import Console

from agentgym.base.errors import UsageError
from agentgym.core.trajectory import Trajectory, read_jsonl
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.logbook.records import read_metrics
from agentgym.trainers.run_folder import last_checkpoint, step_of
from agentgym.trainers.train import train
from tests.trainers.test_train_processes import TWO_PROCESSES, start
from tests.waiting import HANG_S, eventually

pytestmark = [pytest.mark.real, pytest.mark.train]

AHEAD = {"env": "letters_env:WaitingEnv", "output_dir": "run", "ahead": 1, "record_groups": None, "updates_per_step": 1}


def recorded() -> list[Trajectory]:
    return list(read_jsonl(Path("run") / "trajectories.jsonl"))


def assert_each_attempt_once(config: TrainConfig) -> None:
    """A run records every trajectory that it learns from; their attempts are numbered over the whole run."""
    assert sorted(trajectory.attempt for trajectory in recorded()) == [*range(config.steps * config.batch)]
    assert [line["step"] for line in read_metrics(Path("run") / "metrics.jsonl")] == [*range(1, config.steps + 1)]


def test_a_run_ahead_learns_from_every_group_once_with_the_versions_of_its_turns(small: Any):
    config = small(**AHEAD, steps=6)
    train(config, Console(file=io.StringIO()))
    assert_each_attempt_once(config)
    metrics = list(read_metrics(Path("run") / "metrics.jsonl"))
    assert max(line.get("staleness_max", 0.0) for line in metrics) >= 1
    assert all(line["sampler_gap_max"] < 1e-4 for line in metrics if "sampler_gap_max" in line)
    for trajectory in recorded():
        assert trajectory.tokens is not None
        versions = [version for version in trajectory.tokens.versions if version >= 0]
        assert versions == sorted(versions)
        assert trajectory.training_step is not None
        assert versions[0] >= trajectory.training_step


@pytest.mark.slow
def test_a_killed_run_ahead_loses_no_group_and_learns_from_none_twice(small: Any):
    config = small(**AHEAD, steps=12, save_every=2)
    process = start(config)
    assert eventually(lambda: last_checkpoint(Path("run")) is not None or process.poll() is not None, 4 * HANG_S)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    checkpoint = last_checkpoint(Path("run"))
    assert checkpoint is not None
    done = [trajectory.id for trajectory in recorded()[: step_of(checkpoint) * config.batch]]
    config.resume = True
    train(config, Console(file=io.StringIO()))
    assert [trajectory.id for trajectory in recorded()[: len(done)]] == done
    assert_each_attempt_once(config)


def test_a_run_ahead_continues_one_step_after_the_other_or_with_other_steps_but_not_other_groups(small: Any):
    train(small(**AHEAD, steps=3), Console(file=io.StringIO()))
    for folder in Path("run").glob("checkpoint-3"):
        shutil.rmtree(folder)
    with pytest.raises(UsageError, match="holds groups for the next steps, with groups 2: resume with the same groups"):
        train(small(**AHEAD | {"resume": True, "groups": 4}), Console(file=io.StringIO()))
    config = small(**AHEAD | {"resume": True, "ahead": 0}, steps=5)
    train(config, Console(file=io.StringIO()))
    assert_each_attempt_once(config)


@pytest.mark.slow
def test_two_processes_run_ahead_each_with_groups_of_its_own(small: Any):
    config = small(**AHEAD, steps=4)
    process = start(config, TWO_PROCESSES)
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, output
    assert_each_attempt_once(config)
    assert {path.name for path in Path("run/checkpoint-4").glob("ahead-*")} == {"ahead-0.json", "ahead-1.json"}
