"""Misbehaving environments and policies lose no results, and the message names the culprit."""

from __future__ import annotations

import json
import logging
import math
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from agentgym.base.errors import UsageError
from agentgym.cli.app import app
from agentgym.core.making import make_env
from agentgym.core.messages import Message
from agentgym.core.policy import ScriptedPolicy
from agentgym.core.task import Task
from agentgym.core.trajectory import Trajectory, read_jsonl
from agentgym.eval.evaluation import evaluate
from agentgym.eval.policy_loader import load_policy
from agentgym.eval.suites import load_suite
from agentgym.eval.suites.pinning import add_entry
from agentgym.rollout import EnvFactory, Limits
from tests.counter_env import Counter
from tests.rows import each_row

HERE = __name__


class ClosesBadly(Counter):
    def release(self) -> None:
        raise RuntimeError("it is stuck")


class FiguresBadly(Counter):
    @classmethod
    def figures(cls, trajectories: Iterable[Trajectory]) -> Mapping[str, float]:
        raise ZeroDivisionError


class OddFigures(Counter):
    @classmethod
    def figures(cls, trajectories: Iterable[Trajectory]) -> Mapping[str, Any]:
        return {"good": np.float32(2), "nan": math.nan, "text": "high", "none": None}


class Wanders(Counter):
    def start(self, task: Task) -> None:
        super().start(task)
        os.chdir("/")


class CannotBeMade(Counter):
    def __init__(self, **kwargs: Any):
        raise RuntimeError("no device")


class OtherChannel(Counter):
    def grade(self) -> Any:
        return {"outcom": 1.0}


class NoChannels(Counter):
    def grade(self) -> Any:
        return 1.0


class Chatty(Counter):
    def start(self, task: Task) -> None:
        super().start(task)
        sys.stdout.write("loading\n")
        os.write(1, b"loading\n")


class OddDetails(Counter):
    def details(self) -> Mapping[str, Any]:
        return {"count": np.int64(3), "scores": np.arange(2), "thing": object()}


class Says:
    """A policy with the same action in every turn."""

    name: Any = "says"

    def __init__(self, action: Any):
        self._action = action

    def player(self, seat: Any) -> Says:
        return self

    async def act(self, observation: list[Message]) -> Any:
        return self._action


class NotAwaited(Says):
    def act(self, observation: list[Message]) -> Any:  # type: ignore[override]
        return self._action


def raising() -> Says:
    raise RuntimeError("no weights")


def leaving() -> Says:
    raise SystemExit(3)


def unnamed() -> Says:
    policy = Says("hm")
    policy.name = 5
    return policy


def play(env: type, policy: Any = None, **more: Any) -> Any:
    factory = EnvFactory(f"{HERE}:{env.__name__}", {})
    tasks = [factory().tasks.get("test", index) for index in range(2)]
    return evaluate(factory, policy or ScriptedPolicy(), tasks, limits=Limits(retries=0), **more)


def test_an_error_in_closing_an_environment_loses_no_result(caplog: pytest.LogCaptureFixture):
    assert play(ClosesBadly).success == 1.0
    assert "a ClosesBadly could not be closed: RuntimeError: it is stuck" in caplog.text
    result = CliRunner().invoke(app, ["eval", "--env", f"{HERE}:ClosesBadly", "-n", "1", "--json"])
    assert result.exit_code == 0


def test_an_error_in_figures_loses_no_result(caplog: pytest.LogCaptureFixture):
    summary = play(FiguresBadly)
    assert (summary.success, summary.figures) == (1.0, {})
    assert "cannot be computed: ZeroDivisionError (test_evaluation_foreign.py, line" in caplog.text


def test_only_figures_that_are_numbers_are_kept(caplog: pytest.LogCaptureFixture):
    assert play(OddFigures).figures == {"good": 2.0}
    assert sum("is not a finite number" in record.message for record in caplog.records) == 3


def test_results_do_not_move_when_an_environment_changes_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert play(Wanders, out=Path("out.jsonl")).success == 1.0
    assert len(list(read_jsonl(tmp_path / "out.jsonl"))) == 2


def test_an_error_in_a_constructor_names_its_place():
    with pytest.raises(UsageError, match=r"CannotBeMade' cannot be made: RuntimeError: no device \(test_eval.*, line"):
        make_env(f"{HERE}:CannotBeMade", {})


def test_an_entry_whose_environment_cannot_be_made_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "both.yaml"
    for env in ("Chatty", "OddDetails"):
        add_entry(path, {"env": f"{HERE}:{env}", "name": env}, None, 1)
    monkeypatch.setattr(Chatty, "__init__", CannotBeMade.__init__)
    assert len(load_suite(path).entries) == 2
    result = CliRunner().invoke(app, ["eval", "--suite", str(path), "--json"])
    rows = {row["entry"]: row for row in json.loads(result.stdout)["results"]}
    assert "no device" in rows["Chatty"]["error"]
    assert rows["OddDetails"]["summary"]["overall"]["success"] == 1.0
    assert result.exit_code == 1


@each_row(("env", "message"), [(OtherChannel, "unknown reward channel 'outcom'"), (NoChannels, "must return channels")])
def test_a_grade_in_an_undeclared_channel_stops_the_run(env: type, message: str):
    with pytest.raises(UsageError, match=message):
        play(env)


def test_output_of_an_environment_is_kept_out_of_the_json(capfd: pytest.CaptureFixture[str]):
    result = CliRunner().invoke(app, ["eval", "--env", f"{HERE}:Chatty", "-n", "1", "--json"])
    assert json.loads(result.stdout)["overall"]["success"] == 1.0
    assert "loading" not in capfd.readouterr().out


def test_numbers_and_arrays_of_numpy_are_details(tmp_path: Path):
    play(OddDetails, out=tmp_path / "out.jsonl")
    details = next(read_jsonl(tmp_path / "out.jsonl")).details
    assert details == {"count": 3, "scores": [0, 1], "thing": "(object: no JSON data)"}


@each_row("action", [5, b"text", ["text"], object()])
def test_an_invalid_action_is_a_failure_of_the_policy(action: Any, tmp_path: Path):
    play(Counter, Says(action), out=tmp_path / "out.jsonl")
    for trajectory in read_jsonl(tmp_path / "out.jsonl"):
        assert trajectory.component == "policy"
        assert f"policy 'says' acted with a {type(action).__name__}" in str(trajectory.error)


def test_a_policy_whose_act_is_not_async_is_reported():
    assert "act() must be `async def`" in next(iter(play(Counter, NotAwaited("hm")).errors))


@each_row(
    ("name", "message"),
    [
        ("raising", r"cannot be made: RuntimeError: no weights \(test_evaluation_foreign.py, line"),
        ("leaving", "cannot be made: SystemExit: 3"),
        ("unnamed", "whose name is no text, but 5"),
    ],
)
def test_an_error_in_making_a_policy_is_reported(name: str, message: str, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.ERROR)
    with pytest.raises(UsageError, match=message):
        load_policy(f"{HERE}:{name}", env_id="guess", env_kwargs={})


def test_more_episodes_than_fit_into_memory_are_refused():
    with pytest.raises(UsageError, match="10,000,000,000"):
        play(Counter, attempts=5_000_000_000)
