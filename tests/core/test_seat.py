from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from types import FunctionType, ModuleType
from typing import Any

import pytest

from agentgym.engine.steps import Solution
from agentgym.env import Env
from agentgym.envs.guess import GuessEnv
from agentgym.errors import ToolError, UsageError
from agentgym.messages import Message, ToolCall
from agentgym.policy import FunctionPolicy, RandomPolicy, ScriptedPolicy, SilentPolicy
from agentgym.registry import make
from agentgym.rollout import EnvFactory, Job
from agentgym.rollout.streams import play_jobs
from agentgym.schema_tool import schema_tools
from agentgym.seat import Seat
from agentgym.task import Task
from agentgym.trajectory import Trajectory

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
    """Return a task whose gold is told apart from everything else in the process."""
    task = env.tasks.get("train", 0)
    return Task(**{**vars(task), "gold": {**task.gold, "secret": SECRET}})


def reachable(*given: Any) -> Iterator[Any]:
    """Yield what can be got at from what is given; not through modules and classes, which are everybody's."""
    seen: dict[int, Any] = {}
    waiting = list(given)
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, type | ModuleType):
            continue
        seen[id(value)] = value
        yield value
        everybodys = value.__globals__ if isinstance(value, FunctionType) else None
        waiting += [referent for referent in gc.get_referents(value) if referent is not everybodys]


def leaks(*given: Any) -> list[Any]:
    return [
        value
        for value in reachable(*given)
        if isinstance(value, Env | Task) or (isinstance(value, str) and SECRET in value)
    ]


@pytest.mark.parametrize("kind", [GuessEnv, Ticketing])
def test_nothing_that_a_player_is_given_leads_to_the_environment_or_its_gold(kind: type[Env]):
    for dialect in ("hermes", "tags", "fenced", "compact"):
        env = kind(dialect=dialect)
        observation, _ = env.reset(seed=0, options={"task": secret_task(env)})
        seat = Seat.at(env, 0)
        seat.dialect.render("", [ToolCall(name, {}) for name in seat.tools.names], seat.tools)
        assert leaks(seat, observation) == []
        assert {type(leak) for leak in leaks(env)} >= {kind, Task, str}, "the search finds them where they are"
    assert kind is GuessEnv or env in leaks(env.tools), "the tools of an episode do lead there"


@pytest.mark.parametrize("env_id", ["errand", "sql"])
def test_nor_does_anything_in_bundled_environments(env_id: str):
    env = make(env_id)
    env.reset(seed=0)
    assert leaks(Seat.at(env, 0)) == []
    env.close()


class Recording:
    """A policy that keeps everything that it is given."""

    name = "recording"

    def __init__(self):
        self.given: list[Any] = []

    def player(self, *given: Any, **named: Any) -> Any:
        self.given += [given, named]
        return self

    async def act(self, *given: Any) -> None:
        self.given.append(given)


def played(policy: Any) -> Trajectory:
    env = GuessEnv()
    job = Job(secret_task(env), seed=5, attempt=2)
    (found,) = asyncio.run(play_jobs([job], policy, EnvFactory(f"{__name__}:Ticketing", {})))
    return found


def test_a_rollout_gives_a_policy_its_seat_and_what_is_shown_and_no_more():
    policy = Recording()
    assert played(policy).reason == "gave_up"
    (seat,) = policy.given[0]
    assert policy.given[1] == {}
    assert isinstance(seat, Seat)
    assert (seat.tools.names, seat.dialect.name, seat.seed) == (("guess", "close_ticket"), "hermes", 7)
    assert leaks(policy) == []


def test_a_scripted_policy_has_the_environment_and_its_gold():
    seen: list[Any] = []

    def script(env: Env, task: Task) -> Solution:
        seen.append((type(env), task.gold["secret"]))
        return env.solution(task)

    assert played(ScriptedPolicy(script, "knows")).success
    assert seen == [(Ticketing, SECRET)]


@pytest.mark.parametrize("policy", [RandomPolicy(), SilentPolicy(), FunctionPolicy("f", lambda _: "hm")])
def test_policies_without_weights_play_from_a_seat(policy: Any):
    assert played(policy).error is None


# The use of a seat.


@pytest.fixture
def seat() -> Seat:
    env = Ticketing()
    env.reset(seed=0)
    return Seat.at(env, 3)


def test_tools_are_shown_as_to_the_model_and_their_arguments_can_be_checked(seat: Seat):
    env, call = Ticketing(), ToolCall("guess", {"number": 5})
    env.reset(seed=0)
    assert seat.tools.schemas == env.tools.schemas
    assert seat.dialect.instructions(seat.tools) == env.dialect.instructions(env.tools)
    assert seat.dialect.render("", [call], seat.tools) == env.dialect.render("", [call], env.tools)
    assert seat.tools.check(call) == {"number": 5}
    with pytest.raises(ToolError, match=r"'number' is missing.*Usage: guess\(number: integer\)"):
        seat.tools.check(ToolCall("guess", {}))


def test_tools_do_not_run(seat: Seat):
    with pytest.raises(UsageError, match="'guess' runs in the environment only"):
        seat.tools.get("guess").bound_to(GuessEnv())(number=5)


def test_a_seat_cannot_be_changed_nor_what_others_are_shown(seat: Seat):
    with pytest.raises(FrozenInstanceError):
        seat.seed = 4  # type: ignore[misc]
    env = GuessEnv()
    env.reset(seed=0)
    before = json.dumps(env.tools.schemas)
    Seat.at(env, 0).tools.get("guess").parameters.clear()
    assert json.dumps(env.tools.schemas) == json.dumps(Seat.at(env, 0).tools.schemas) == before


def test_random_play_depends_on_the_seat_alone():
    def drawn(seed: int) -> list[Any]:
        env = GuessEnv()
        env.reset(seed=0)
        player = RandomPolicy().player(Seat.at(env, seed))
        shown: list[Message] = []
        return [asyncio.run(player.act(shown)) for _ in range(5)]  # type: ignore[arg-type]

    assert drawn(1) == drawn(1) != drawn(2)
