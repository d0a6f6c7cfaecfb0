"""One broken entry or task stops nothing: it is left out and named, and with `strict` it is an error."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from agentgym.base.errors import BrokenTask, UsageError
from agentgym.cli.app import app
from agentgym.core.endings import Ending, Reason
from agentgym.core.policy import ScriptedPolicy
from agentgym.core.registry import make
from agentgym.core.task import iterate
from agentgym.core.task_files import LeftOut, Quarantine, Unusable, Why, counted
from agentgym.core.trajectory import Trajectory
from agentgym.eval.summary import summarize
from agentgym.rollout import EnvFactory, Job, Limits
from agentgym.rollout.streams import play_jobs
from tests.rows import each_row

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


def mbpp(folder: Path, *entries: Any) -> Path:
    file = folder / "mbpp.jsonl"
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return file


def played(file: Path, **limits: Any) -> list[Trajectory]:
    kwargs = {"file": str(file), "solution_style": "direct"}
    source = make("code", **kwargs).tasks
    jobs = [Job(task, seed=0) for split in source.splits for task in iterate(source, split)]
    return asyncio.run(play_jobs(jobs, ScriptedPolicy(), EnvFactory("code", kwargs), Limits(**limits)))


def command(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


@pytest.mark.real
def test_a_gold_that_fails_its_own_check_fails_its_own_episodes_alone(tmp_path: Path):
    good, broken = played(mbpp(tmp_path, DOUBLE, FAILS_ITS_CHECK))
    assert good.success
    assert (broken.ending, broken.reason, broken.reward) == (Ending.FAILED, Reason.BROKEN_TASK, 0.0)
    assert "the gold code of task 'mbpp/2' does not pass its own check" in str(broken.error)


@pytest.mark.real
def test_strict_rollouts_stop_at_a_broken_task(tmp_path: Path):
    with pytest.raises(BrokenTask, match="'mbpp/2' does not pass its own check"):
        played(mbpp(tmp_path, DOUBLE, FAILS_ITS_CHECK), strict=True)


@pytest.mark.real
def test_a_broken_task_is_in_no_number_of_a_summary_but_named(tmp_path: Path):
    found = played(mbpp(tmp_path, DOUBLE, FAILS_ITS_CHECK))
    with_it, without = summarize(found), summarize(found[:1])
    assert (with_it.overall, with_it.failed, with_it.errors) == (without.overall, 0, {})
    assert list(with_it.broken_tasks) == ["mbpp/2"]
    assert "does not pass its own check" in with_it.broken_tasks["mbpp/2"]


def evaluated(file: Path, *more: str) -> Result:
    settings = ("--set", f"file={file}", "--set", "solution_style=direct", "--set", "split_by=test")
    return command("eval", "--env", "code", *settings, *more)


@pytest.mark.real
def test_an_evaluation_goes_on_past_broken_entries_and_names_them(tmp_path: Path):
    result = evaluated(mbpp(tmp_path, NO_PYTHON, DOUBLE, FAILS_ITS_CHECK))
    assert result.exit_code == 0, result.output
    assert "1 task(s) are broken" in result.stdout
    assert "mbpp/2: BrokenTask: the gold code" in result.stdout


@pytest.mark.real
@each_row(
    ("entries", "said"),
    [
        ((NO_PYTHON, DOUBLE), "mbpp.jsonl:1: its code or tests are not Python"),
        ((DOUBLE, FAILS_ITS_CHECK), "the gold code of task 'mbpp/2' does not pass its own check"),
    ],
)
def test_a_strict_evaluation_stops_with_one_line(tmp_path: Path, entries: tuple[Any, ...], said: str):
    result = evaluated(mbpp(tmp_path, *entries), "--strict")
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert said in line


@pytest.mark.real
def test_an_evaluation_of_nothing_but_broken_tasks_is_no_success(tmp_path: Path):
    result = evaluated(mbpp(tmp_path, FAILS_ITS_CHECK))
    assert result.exit_code == 1
    assert "no episode finished" in result.stdout
    assert "does not pass its own check" in " ".join(result.stdout.split())


def test_strict_asks_nothing_of_environments_that_take_no_files():
    result = command("eval", "--env", "guess", "--limit", "1", "--strict")
    assert result.exit_code == 0, result.output


# The quarantine itself.


def test_left_out_entries_are_counted_by_reason_with_an_example(caplog: pytest.LogCaptureFixture):
    quarantine = Quarantine("data")
    quarantine.add("data:1", "it repeats data:0", Why.REPEATED)
    with quarantine.guard("data:2"):
        raise Unusable("there is no gold")
    quarantine.close(kept=3)
    (line,) = caplog.messages
    assert line.startswith("data: 2 of 5 entries are left out (1 broken, 1 repeated); ")
    assert line.endswith("the first broken one: data:2: there is no gold")
    assert quarantine.entries[1] == LeftOut("data:2", "there is no gold", Why.BROKEN)


def test_nothing_is_said_where_nothing_is_left_out(caplog: pytest.LogCaptureFixture):
    Quarantine("data").close(kept=1)
    assert not caplog.messages


def test_strict_refuses_what_is_broken_and_nothing_else():
    strict = Quarantine("data", strict=True)
    strict.add("data:1", "it repeats data:0", Why.REPEATED)
    strict.add("data:2", "an empty query answers it", Why.DEGENERATE)
    with pytest.raises(UsageError, match="data:3: there is no gold"):
        strict.add("data:3", "there is no gold")


def test_a_source_of_which_nothing_is_left_says_why():
    quarantine = Quarantine("data")
    quarantine.add("data:1", "there is no gold")
    with pytest.raises(UsageError, match="data: no entry of 1 can be used; the first: data:1: there is no gold"):
        quarantine.close(kept=0)
    assert "1 of 1 entries" in counted(quarantine.entries, kept=0)
