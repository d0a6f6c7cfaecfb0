"""Broken entries and tasks are left out and named; with `strict` they are errors."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.core.endings import Ending, Reason
from agentgym.core.policy import ScriptedPolicy
from agentgym.core.registry import make
from agentgym.core.trajectory import Trajectory
from agentgym.eval.summary import summarize
from agentgym.rollout import EnvFactory, Job
from agentgym.rollout.streams import play_jobs
from tests.tasks.entries import every_task, write_entries

DOUBLE = {
    "task_id": 1,
    "text": "Write a function that doubles a number.",
    "code": "def twice (x):\r\n    return 2 * x",
    "test_list": ["assert twice(2) == 4", "assert twice(5) == 10"],
    "test_setup_code": "",
    "challenge_test_list": [],
}
FAILS_ITS_CHECK = DOUBLE | {"task_id": 2, "text": "Triple it.", "test_list": ["assert twice(2) == 6"]}


def played(file: Path) -> list[Trajectory]:
    kwargs = {"file": str(file), "solution_style": "direct"}
    jobs = [Job(task, seed=0) for task in every_task(make("code", **kwargs).tasks)]
    return asyncio.run(play_jobs(jobs, ScriptedPolicy(), EnvFactory("code", kwargs)))


@pytest.mark.real
def test_a_task_whose_gold_fails_its_own_check_is_named_but_counts_in_no_result(tmp_path: Path):
    trajectories = played(write_entries(tmp_path, DOUBLE, FAILS_ITS_CHECK))
    good, broken = trajectories
    assert good.success
    assert (broken.ending, broken.reason, broken.reward) == (Ending.FAILED, Reason.BROKEN_TASK, 0.0)
    assert "the gold code of task 'mbpp/2' does not pass its own check" in str(broken.error)
    with_broken, without = summarize(trajectories), summarize([good])
    assert (with_broken.overall, with_broken.failed, with_broken.errors) == (without.overall, 0, {})
    assert list(with_broken.broken_tasks) == ["mbpp/2"]
    assert "does not pass its own check" in with_broken.broken_tasks["mbpp/2"]


@pytest.mark.real
def test_a_strict_evaluation_stops_with_one_line(tmp_path: Path):
    file = write_entries(tmp_path, DOUBLE, FAILS_ITS_CHECK)
    settings = ("--set", f"file={file}", "--set", "solution_style=direct", "--set", "split_by=test")
    result = CliRunner().invoke(app, ["eval", "--env", "code", *settings, "--strict"])
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert "the gold code of task 'mbpp/2' does not pass its own check" in line
