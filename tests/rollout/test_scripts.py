"""Scripts may block, and their players may await, without stopping other episodes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from agentgym.core.endings import Reason
from agentgym.core.engine.spaces import Action
from agentgym.core.env import Env
from agentgym.core.messages import Message
from agentgym.core.policy import EndEpisode, FunctionPolicy, Player, ScriptedPolicy, solution_player
from agentgym.core.task import Task
from agentgym.rollout import EnvFactory
from agentgym.rollout.workers.processes import ProcessWorkers
from tests.counter_env import groups
from tests.rollout_cases import play_groups

pytestmark = pytest.mark.real

COUNTER = EnvFactory("tests.counter_env:Counter", {})
PLAYERS = 4


class Meeting:
    """A folder where players wait for each other."""

    def __init__(self, folder: Path):
        self._folder = folder

    def arrive(self, name: str) -> None:
        (self._folder / name).touch()

    @property
    def is_complete(self) -> bool:
        return len(list(self._folder.iterdir())) == PLAYERS


class Blocking(ScriptedPolicy):
    """Its scripts block until all players have arrived."""

    def __init__(self, meeting: Meeting):
        super().__init__(self.play)
        self._meeting = meeting

    def play(self, env: Env, task: Task) -> Generator[Any, Any, None]:
        self._meeting.arrive(task.id.replace("/", "-"))
        while not self._meeting.is_complete:
            time.sleep(0.01)
        yield from solution_player(env, task)


class Awaiting(ScriptedPolicy):
    """Its players await until all of them have arrived."""

    def __init__(self, meeting: Meeting):
        super().__init__()
        self._meeting = meeting

    def begin(self, env: Env) -> Player:
        return _Awaiting(super().begin(env), self._meeting, env.task.id.replace("/", "-"))


class _Awaiting:
    def __init__(self, player: Player, meeting: Meeting, name: str):
        self._player, self._meeting, self._name = player, meeting, name

    async def act(self, observation: list[Message]) -> Action | None:
        self._meeting.arrive(self._name)
        while not self._meeting.is_complete:
            await asyncio.sleep(0.01)
        return await self._player.act(observation)


@pytest.mark.parametrize("workers", ["threads", "one process"])
@pytest.mark.parametrize("kind", [Blocking, Awaiting])
def test_scripted_players_can_wait_for_each_other(tmp_path: Path, kind: type[Blocking | Awaiting], workers: str):
    worker_setting = "threads" if workers == "threads" else ProcessWorkers(COUNTER, PLAYERS, processes=1)
    limits: dict[str, Any] = {"max_in_flight": PLAYERS, "generation_timeout_s": 30}
    trajectories = play_groups(COUNTER, groups(PLAYERS), kind(Meeting(tmp_path)), worker_setting, **limits)
    assert [(trajectory.error, trajectory.success) for trajectory in trajectories] == [(None, True)] * PLAYERS


def gives_up(env: Env, task: Task) -> Generator[Any, Any, None]:
    raise EndEpisode(Reason.CONTEXT)
    yield


@pytest.mark.parametrize("workers", ["inline", "threads", "processes"])
def test_a_script_may_end_its_episode_in_every_kind_of_workers(workers: str):
    [trajectory] = play_groups(COUNTER, groups(1), ScriptedPolicy(gives_up), workers)
    assert (trajectory.reason, trajectory.error) == (Reason.CONTEXT, None)


SCRIPT = """
from agentgym.base.errors import UsageError
from agentgym.core.policy import ScriptedPolicy
from agentgym.rollout import EnvFactory, RolloutEngine
from tests.counter_env import groups

def script(env, task):
    yield from env.solution(task)

with RolloutEngine(EnvFactory("tests.counter_env:Counter", {}), ScriptedPolicy(script), workers="processes") as engine:
    try:
        engine.collect(groups(2))
    except UsageError as error:
        print(error)
"""


def test_a_script_that_processes_cannot_import_is_refused_in_one_line():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert "another process cannot import the script of the policy" in done.stdout
    assert "use workers='threads'" in done.stdout
    assert done.stdout.count("\n") == 1


class Said(str):
    """Text of a class that cannot be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("not to be sent")


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_actions_of_a_policy_are_recorded_as_plain_text(workers: str):
    policy = FunctionPolicy("said", lambda messages: Said("hm") if len(messages) < 3 else None)
    [trajectory] = play_groups(COUNTER, groups(1), policy, workers)
    assert (type(trajectory.turns[0].action), trajectory.turns[0].action) == (str, "hm")
