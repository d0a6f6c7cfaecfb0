"""`RemoteEnv` plays what the server plays: the same episodes and errors, whatever happens to the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from gymnasium.error import ResetNeeded

pytest.importorskip("websockets", reason="needs the [serve] extra")
pytest.importorskip("fastapi", reason="needs the [serve] extra")

import agentgym
from agentgym import Env, InfrastructureError, Reason, UsageError
from agentgym.base.errors import TaskError
from agentgym.core.endings import Ending
from agentgym.core.messages import text_of
from agentgym.core.policy import FunctionPolicy, steps
from agentgym.interop.served.remote_env import RemoteEnv
from agentgym.rollout import EnvFactory, Job, Limits
from agentgym.rollout.limits import OutOfTime
from agentgym.rollout.streams import play_jobs
from agentgym.tools.sandbox.registry import automatic
from tests.rows import each_row
from tests.served_envs import HELD, TOKEN, HeldEnv, Served, call, served, wire
from tests.waiting import HANG_S, eventually

ADD, DONE, WAIT = call("add"), call("done"), call("wait")
CHEAP = ("guess", "errand", "sql", "search", "code")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    HeldEnv.forget()


@pytest.fixture
def held() -> Iterator[Served]:
    with served(HELD) as server:
        yield server


@pytest.fixture
def env(held: Served) -> Iterator[RemoteEnv]:
    """An environment in a running episode."""
    with closing(held.env()) as env:
        env.reset(seed=1)
        yield env


@pytest.fixture(scope="module")
def catalog() -> Iterator[Served]:
    """Every cheap environment on one server that reveals solutions."""
    with served(*CHEAP, reveal=True) as server:
        yield server


def count_of(env: Env) -> int:
    """Call `add`, and return the count that it shows."""
    return int(text_of(env.step(ADD).observation[0]).removeprefix("count "))


def played(env: Env, task: str, seed: int) -> list[Any]:
    """All that an episode shows, played by the solution of its task."""
    opening = env.reset(seed=seed, options={"task": task})
    turns = [list(step) for step in steps(env, env.solution(env.tasks.find(task)))]
    return [*opening, *turns, env.task.hash, str(env.reason)]


@pytest.mark.real
@pytest.mark.parametrize("name", CHEAP)
def test_an_episode_is_the_same_here_and_on_a_server(catalog: Served, name: str):
    if name == "code" and automatic() is None:
        pytest.skip("no backend of the sandbox works here")
    with closing(agentgym.make(name)) as native, closing(catalog.env(env=name)) as remote:
        task = native.tasks.get(native.split, 3).id
        assert played(remote, task, 5) == played(native, task, 5)


def test_harmless_arguments_reach_the_environment(catalog: Served):
    with closing(catalog.env(env="errand", dialect="tags", max_turns=5)) as remote:
        assert (remote.dialect.name, remote.max_turns) == ("tags", 5)
    with pytest.raises(UsageError, match="clients cannot set 'tasks' of 'errand'"):
        catalog.env(env="errand", tasks="/etc/passwd")


def test_errors_keep_their_class(held: Served):
    with closing(held.env()) as env:
        with pytest.raises(ResetNeeded):
            env.step(ADD)
        with pytest.raises(TaskError):
            env.reset(options={"task": "held/train/99"})
        with pytest.raises(TaskError, match="unknown split"):
            env.reset(options={"split": "nowhere"})
        env.reset(seed=1)
        assert "not like this" in str(env.step(call("misuse")).observation)  # the model's mistakes are observations
        with pytest.raises(InfrastructureError, match="the disk is full"):
            env.step(call("fail"))
        with pytest.raises(ResetNeeded):
            env.step(ADD)
        env.reset(seed=1)
        with pytest.raises(InfrastructureError, match="SystemExit"):
            env.step(call("exit"))
        env.reset(seed=1)
        assert env.step(DONE).terminated  # the server is still running


def test_a_request_whose_reply_was_lost_is_not_played_twice(held: Served):
    with wire(held.port) as relay, closing(held.env(relay.url)) as env:
        env.reset(seed=1)
        relay.loses_reply_after = b'"step"'
        assert count_of(env) == 1
        assert relay.connections == 2
        assert count_of(env) == 2


def test_a_reply_lost_while_the_step_still_runs_is_waited_for(held: Served):
    with wire(held.port) as relay, closing(held.env(relay.url)) as env, ThreadPoolExecutor(1) as thread:
        env.reset(seed=1)
        step = thread.submit(env.step, WAIT)
        assert HeldEnv.is_waiting.wait(HANG_S)
        relay.cut()
        assert eventually(lambda: relay.connections == 2)
        HeldEnv.may_go_on.set()
        assert "waited" in str(step.result(30).observation)
        assert count_of(env) == 1


def test_a_rollout_on_a_server_that_dies_fails_without_a_reward():
    server = Served(HELD)

    def act(messages: Any) -> Any:
        if server.is_running:
            server.stop()
        return "add"

    with closing(server.env()) as env:
        task = env.tasks.get("train", 0)
    arguments = {"url": server.url, "token": TOKEN, "reconnect_s": 0.1}
    factory = EnvFactory("agentgym.interop.served.remote_env:RemoteEnv", arguments)
    work = play_jobs([Job(task, seed=1)], FunctionPolicy("stops", act), factory, Limits(retries=1))
    (trajectory,) = asyncio.run(work)
    assert (trajectory.ending, trajectory.reason) == (Ending.FAILED, Reason.INFRASTRUCTURE)
    assert "cannot reach" in str(trajectory.error)


def test_a_step_beyond_the_time_limit_ends_the_session():
    with served(HELD, request_s=0.3) as server, closing(server.env()) as env:
        env.reset(seed=1)
        with pytest.raises(OutOfTime) as caught:
            env.step(WAIT)
        assert (caught.value.reason, caught.value.limit_s) == (Reason.STEP_TIME, 0.3)
        with pytest.raises(InfrastructureError, match="closed because a request took too long"):
            env.step(ADD)
        assert eventually(lambda: HeldEnv.closed == 1)
        env.reset(seed=1)  # a new session, while the old step still waits
        assert count_of(env) == 1


@each_row("token", ["", TOKEN[:-1] + "x", TOKEN + "x"])
def test_a_wrong_token_is_refused_at_once(held: Served, token: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("AGENTGYM_TOKEN", raising=False)
    with pytest.raises(UsageError, match="refuses the token"):
        held.env(token=token, reconnect_s=60.0)
    assert len(held.sessions) == 0


def test_gold_stays_on_the_server(env: RemoteEnv):
    task = env.tasks.get("train", 0)
    assert (task.gold, task.data, env.task.gold) == ({}, {}, {})
    assert task.hash not in ("", HeldEnv().tasks.get("train", 0).hash)
    with pytest.raises(UsageError, match="--reveal"):
        next(iter(env.solution(task)))
    with pytest.raises(UsageError, match="--reveal"):
        env.failing(task)
