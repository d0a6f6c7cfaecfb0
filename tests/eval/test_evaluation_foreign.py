"""Misbehaving environments and policies lose no results, and the message names the culprit."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentgym.base.errors import UsageError
from agentgym.cli.app import app
from agentgym.core.making import make_env
from agentgym.core.messages import Message
from agentgym.core.policy import ScriptedPolicy
from agentgym.core.task import Task
from agentgym.core.trajectory import read_jsonl
from agentgym.eval.evaluation import evaluate
from agentgym.eval.policy_loader import load_policy
from agentgym.rollout import EnvFactory, Limits
from tests.counter_env import Counter
from tests.rows import each_row

HERE = __name__


class ClosesBadly(Counter):
    def release(self) -> None:
        raise RuntimeError("it is stuck")


class CannotBeMade(Counter):
    def __init__(self, **kwargs: Any):
        raise RuntimeError("no device")


class OtherChannel(Counter):
    def grade(self) -> Any:
        return {"outcom": 1.0}


class Chatty(Counter):
    def start(self, task: Task) -> None:
        super().start(task)
        sys.stdout.write("loading\n")
        os.write(1, b"loading\n")


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


def play(env: type, policy: Any = None, **more: Any) -> Any:
    factory = EnvFactory(f"{HERE}:{env.__name__}", {})
    tasks = [factory().tasks.get("test", index) for index in range(2)]
    return evaluate(factory, policy or ScriptedPolicy(), tasks, limits=Limits(retries=0), **more)


def test_an_error_in_closing_an_environment_loses_no_result(caplog: pytest.LogCaptureFixture):
    assert play(ClosesBadly).success == 1.0
    assert "a ClosesBadly could not be closed: RuntimeError: it is stuck" in caplog.text


def test_an_error_in_a_constructor_names_its_place():
    with pytest.raises(UsageError, match=r"CannotBeMade' cannot be made: RuntimeError: no device \(test_eval.*, line"):
        make_env(f"{HERE}:CannotBeMade", {})


def test_a_grade_in_an_undeclared_channel_stops_the_run():
    with pytest.raises(UsageError, match="unknown reward channel 'outcom'"):
        play(OtherChannel)


def test_output_of_an_environment_is_kept_out_of_the_json(capfd: pytest.CaptureFixture[str]):
    result = CliRunner().invoke(app, ["eval", "--env", f"{HERE}:Chatty", "-n", "1", "--json"])
    assert json.loads(result.stdout)["overall"]["success"] == 1.0
    assert "loading" not in capfd.readouterr().out


@each_row("action", [5, object()])
def test_an_invalid_action_is_a_failure_of_the_policy(action: Any, tmp_path: Path):
    play(Counter, Says(action), out=tmp_path / "out.jsonl")
    for trajectory in read_jsonl(tmp_path / "out.jsonl"):
        assert trajectory.component == "policy"
        assert f"policy 'says' acted with a {type(action).__name__}" in str(trajectory.error)


def test_a_policy_whose_act_is_not_async_is_reported():
    assert "act() must be `async def`" in next(iter(play(Counter, NotAwaited("hm")).errors))


def test_an_error_in_making_a_policy_is_reported(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.ERROR)
    with pytest.raises(UsageError, match=r"cannot be made: RuntimeError: no weights \(test_evaluation_foreign"):
        load_policy(f"{HERE}:raising", env_id="guess", env_kwargs={})
