"""Seats give players the tools and the dialect, never the environment or its gold."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytest

from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.policy import ScriptedPolicy, Seat
from agentgym.core.schema_tool import schema_tools
from agentgym.core.task import Task
from agentgym.core.trajectory import Trajectory
from agentgym.envs.guess import GuessEnv
from agentgym.rollout import EnvFactory, Job
from agentgym.rollout.streams import play_jobs

SECRET = "the gold that no player may see"


class Ticketing(GuessEnv):
    """Offers, besides its own tool, tools that are run by the episode itself and so hold it."""

    def start(self, task: Task) -> Any:
        schema = {"name": "close_ticket", "description": "Close the ticket.", "parameters": {"properties": {}}}
        self.tools = self.tools.plus(*schema_tools([schema], self._clerk))
        return super().start(task)

    def _clerk(self, name: str, arguments: dict[str, Any]) -> str:
        return str(self.task.gold)


def secret_task(env: Env) -> Task:
    """Return a task whose gold is unique in the process."""
    task = env.tasks.get("train", 0)
    return Task(**{**vars(task), "gold": {**task.gold, "secret": SECRET}})


def reachable(*roots: Any) -> Iterator[Any]:
    """Yield all objects reachable from `roots` except through modules and classes, which are global."""
    visited: dict[int, Any] = {}
    waiting = list(roots)
    while waiting:
        value = waiting.pop()
        if id(value) in visited or isinstance(value, type | ModuleType):
            continue
        visited[id(value)] = value
        yield value
        module_globals = value.__globals__ if isinstance(value, FunctionType) else None
        waiting += [referent for referent in gc.get_referents(value) if referent is not module_globals]


def leaks(*roots: Any) -> list[Any]:
    return [
        value
        for value in reachable(*roots)
        if isinstance(value, Env | Task) or (isinstance(value, str) and SECRET in value)
    ]


@pytest.mark.parametrize("kind", [GuessEnv, Ticketing])
def test_a_seat_does_not_lead_to_the_environment_or_its_gold(kind: type[Env]):
    for dialect in ("hermes", "tags", "fenced", "compact"):
        env = kind(dialect=dialect)
        observation, _ = env.reset(seed=0, options={"task": secret_task(env)})
        seat = Seat.at(env, 0)
        seat.dialect.render("", [ToolCall(name, {}) for name in seat.tools.names], seat.tools)
        assert leaks(seat, observation) == []
        assert {type(leak) for leak in leaks(env)} >= {kind, Task, str}, "the search finds leaks"
    assert kind is GuessEnv or env in leaks(env.tools), "the tools of an episode do lead there"


class Recording:
    """A policy that records all its arguments."""

    name = "recording"

    def __init__(self):
        self.received: list[Any] = []

    def player(self, *args: Any, **named: Any) -> Any:
        self.received += [args, named]
        return self

    async def act(self, *args: Any) -> None:
        self.received.append(args)


def played(policy: Any) -> Trajectory:
    env = GuessEnv()
    job = Job(secret_task(env), seed=5, attempt=2)
    (trajectory,) = asyncio.run(play_jobs([job], policy, EnvFactory(f"{__name__}:Ticketing", {})))
    return trajectory


def test_a_rollout_passes_only_a_seat_and_observations():
    policy = Recording()
    assert played(policy).reason == "gave_up"
    (seat,) = policy.received[0]
    assert policy.received[1] == {}
    assert isinstance(seat, Seat)
    assert (seat.tools.names, seat.dialect.name, seat.seed) == (("guess", "close_ticket"), "hermes", 7)
    assert leaks(policy) == []


def test_a_scripted_policy_has_the_environment_and_its_gold():
    seats: list[Any] = []

    def script(env: Env, task: Task) -> Solution:
        seats.append((type(env), task.gold["secret"]))
        return env.solution(task)

    assert played(ScriptedPolicy(script, "knows")).success
    assert seats == [(Ticketing, SECRET)]
