"""Broken entries and tasks are left out and named; with `strict` they are errors."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from agentgym.base.errors import BrokenTask, UsageError
from agentgym.cli.app import app
from agentgym.core.endings import Ending, Reason
from agentgym.core.policy import ScriptedPolicy
from agentgym.core.registry import make
from agentgym.core.task_files import LeftOut, Quarantine, Unusable, Why
from agentgym.core.trajectory import Trajectory
from agentgym.eval.summary import summarize
from agentgym.rollout import EnvFactory, Job, Limits
from agentgym.rollout.streams import play_jobs
from tests.rows import each_row
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
NO_PYTHON = DOUBLE | {"task_id": 3, "code": "def twice(x:\n"}


def played(file: Path, **limits: Any) -> list[Trajectory]:
    kwargs = {"file": str(file), "solution_style": "direct"}
    jobs = [Job(task, seed=0) for task in every_task(make("code", **kwargs).tasks)]
    return asyncio.run(play_jobs(jobs, ScriptedPolicy(), EnvFactory("code", kwargs), Limits(**limits)))


def evaluated(file: Path, *options: str) -> Result:
    settings = ("--set", f"file={file}", "--set", "solution_style=direct", "--set", "split_by=test")
    return CliRunner().invoke(app, ["eval", "--env", "code", *settings, *options])


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
def test_strict_rollouts_stop_at_a_broken_task(tmp_path: Path):
    with pytest.raises(BrokenTask, match="'mbpp/2' does not pass its own check"):
        played(write_entries(tmp_path, DOUBLE, FAILS_ITS_CHECK), strict=True)


@pytest.mark.real
def test_an_evaluation_leaves_out_broken_entries_and_names_them(tmp_path: Path):
    result = evaluated(write_entries(tmp_path, NO_PYTHON, DOUBLE, FAILS_ITS_CHECK))
    assert result.exit_code == 0, result.output
    assert "1 task(s) are broken" in result.stdout
    assert "mbpp/2: BrokenTask: the gold code" in result.stdout


@pytest.mark.real
@each_row(
    ("entries", "text"),
    [
        ((NO_PYTHON, DOUBLE), "data.jsonl:1: its code or tests are not Python"),
        ((DOUBLE, FAILS_ITS_CHECK), "the gold code of task 'mbpp/2' does not pass its own check"),
    ],
)
def test_a_strict_evaluation_stops_with_one_line(tmp_path: Path, entries: tuple[Any, ...], text: str):
    result = evaluated(write_entries(tmp_path, *entries), "--strict")
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert text in line


@pytest.mark.real
def test_an_evaluation_of_broken_tasks_alone_fails(tmp_path: Path):
    result = evaluated(write_entries(tmp_path, FAILS_ITS_CHECK))
    assert result.exit_code == 1
    assert "no episode finished" in result.stdout
    assert "does not pass its own check" in " ".join(result.stdout.split())


def test_strict_is_accepted_by_environments_without_files():
    result = CliRunner().invoke(app, ["eval", "--env", "guess", "--limit", "1", "--strict"])
    assert result.exit_code == 0, result.output


def test_left_out_entries_are_counted_by_reason_with_an_example(caplog: pytest.LogCaptureFixture):
    Quarantine("data").close(kept=1)
    assert not caplog.messages, "nothing is left out"
    quarantine = Quarantine("data")
    quarantine.add("data:1", "it repeats data:0", Why.REPEATED)
    with quarantine.guard("data:2"):
        raise Unusable("no gold")
    quarantine.close(kept=3)
    (line,) = caplog.messages
    assert line.startswith("data: 2 of 5 entries are left out (1 broken, 1 repeated); ")
    assert line.endswith("the first broken one: data:2: no gold")
    assert quarantine.entries[1] == LeftOut("data:2", "no gold", Why.BROKEN)


def test_strict_refuses_only_broken_entries():
    strict = Quarantine("data", strict=True)
    strict.add("data:1", "it repeats data:0", Why.REPEATED)
    strict.add("data:2", "an empty query answers it", Why.DEGENERATE)
    with pytest.raises(UsageError, match="data:3: no gold"):
        strict.add("data:3", "no gold")


def test_a_source_without_usable_entries_is_refused_with_the_first_reason():
    quarantine = Quarantine("data")
    quarantine.add("data:1", "no gold")
    with pytest.raises(UsageError, match="data: no entry of 1 can be used; the first: data:1: no gold"):
        quarantine.close(kept=0)
