"""`RemoteEnv` plays what the server plays: the same episodes and errors, whatever happens to the connection."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from gymnasium.error import ResetNeeded

pytest.importorskip("websockets", reason="needs the [serve] extra")
pytest.importorskip("fastapi", reason="needs the [serve] extra")

import agentgym
from agentgym import Env, InfrastructureError, Reason, UsageError
from agentgym.endings import Ending
from agentgym.errors import TaskError
from agentgym.interop.remote import RemoteEnv
from agentgym.policy import FunctionPolicy
from agentgym.rollout import EnvFactory, Job, Limits, collect
from agentgym.rollout.deadlines import OutOfTime
from agentgym.script import steps
from agentgym.tools.sandbox.registry import automatic
from tests.served_envs import CANARY, HELD, TOKEN, HeldEnv, Served, call, served, wire
from tests.waiting import eventually

ADD, DONE, WAIT = call("add"), call("done"), call("wait")
CHEAP = ("guess", "errand", "sql", "search", "code")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    HeldEnv.forget()


@pytest.fixture
def held() -> Iterator[Served]:
    with served(HELD) as server:
        yield server


@pytest.fixture(scope="module")
def catalog() -> Iterator[Served]:
    """Every cheap environment on one server that reveals solutions."""
    with served(*CHEAP, reveal=True) as server:
        yield server


def played(env: Env, task: str, seed: int) -> list[Any]:
    """All that an episode shows, played by the solution of its task."""
    observation, info = env.reset(seed=seed, options={"task": task})
    trace: list[Any] = [observation, info]
    trace += [list(step) for step in steps(env, env.solution(env.tasks.find(task)))]
    return [*trace, env.task.hash, str(env.reason)]


@pytest.mark.real
@pytest.mark.parametrize("name", CHEAP)
def test_an_episode_is_the_same_here_and_on_a_server(catalog: Served, name: str):
    if name == "code" and automatic() is None:
        pytest.skip("no backend of the sandbox works here")
    native, remote = agentgym.make(name), catalog.env(env=name)
    task = native.tasks.get(native.split, 3).id
    try:
        assert played(remote, task, 5) == played(native, task, 5)
    finally:
        native.close()
        remote.close()


def test_a_seed_chooses_the_same_task_and_the_same_episode(catalog: Served):
    native, remote = agentgym.make("errand"), catalog.env(env="errand")
    for seed in (0, 1, 2**40):
        assert remote.reset(seed=seed) == native.reset(seed=seed)
        assert remote.task.id == native.task.id
    native.reset(seed=7)
    remote.reset(seed=7)
    assert [remote.reset()[1]["task"] for _ in range(5)] == [native.reset()[1]["task"] for _ in range(5)]
    remote.close()


def test_what_describes_an_environment_is_that_of_the_server(catalog: Served):
    native, remote = agentgym.make("sql"), catalog.env(env="sql")
    for name in ("channels", "scheme", "max_turns", "max_calls_per_turn", "split"):
        assert getattr(remote, name) == getattr(native, name), name
    assert remote.tools.schemas == native.tools.schemas
    assert {split: remote.tasks.size(split) for split in remote.tasks.splits} == {
        split: native.tasks.size(split) for split in native.tasks.splits
    }
    native.close()
    remote.close()


def test_arguments_reach_the_environment_if_it_declares_them_harmless(catalog: Served):
    remote = catalog.env(env="errand", dialect="tags", max_turns=5)
    assert (remote.dialect.name, remote.max_turns) == ("tags", 5)
    remote.close()
    with pytest.raises(UsageError, match="clients cannot set 'tasks' of 'errand'"):
        catalog.env(env="errand", tasks="/etc/passwd")


def test_errors_keep_their_kind(held: Served):
    env = held.env()
    with pytest.raises(ResetNeeded):
        env.step(ADD)
    with pytest.raises(TaskError):
        env.reset(options={"task": "held/train/99"})
    with pytest.raises(TaskError, match="unknown split"):
        env.reset(options={"split": "nowhere"})
    env.reset(seed=1)
    result = env.step(call("misuse"))
    assert "not like this" in str(result.observation)  # what the model does wrong is an observation
    with pytest.raises(InfrastructureError, match="the disk is full"):
        env.step(call("fail"))
    with pytest.raises(ResetNeeded):
        env.step(ADD)
    env.reset(seed=1)
    with pytest.raises(InfrastructureError, match="SystemExit"):
        env.step(call("exit"))
    env.reset(seed=1)
    assert env.step(DONE).terminated  # and the server lives
    env.close()


@pytest.mark.parametrize("reason", [Reason.TOKEN_BUDGET, Reason.MAX_TURNS, Reason.GAVE_UP])
def test_an_interruption_ends_and_grades_the_episode(held: Served, reason: Reason):
    env = held.env()
    env.reset(seed=1)
    result = env.interrupt(reason)
    assert (result.truncated, env.reason) == (reason is not Reason.GAVE_UP, reason)
    env.close()


def test_a_broken_connection_goes_on_in_the_same_session(held: Served):
    with wire(held.port) as relay:
        env = held.env(relay.url)
        env.reset(seed=1)
        assert "count 1" in str(env.step(ADD).observation)
        relay.cut()
        assert "count 2" in str(env.step(ADD).observation)
        assert (relay.connections, HeldEnv.made) == (2, 1)
        env.close()


def test_a_request_whose_reply_was_lost_is_answered_and_not_played_again(held: Served):
    with wire(held.port) as relay:
        env = held.env(relay.url)
        env.reset(seed=1)
        relay.loses_reply_after = b'"step"'
        assert "count 1" in str(env.step(ADD).observation)
        assert relay.connections == 2
        assert "count 2" in str(env.step(ADD).observation)
        env.close()


def test_a_reply_that_was_lost_while_the_step_still_runs_is_waited_for(held: Served):
    with wire(held.port) as relay:
        env = held.env(relay.url)
        env.reset(seed=1)
        came: list[Any] = []
        player = threading.Thread(target=lambda: came.append(env.step(WAIT)))
        player.start()
        assert HeldEnv.is_waiting.wait(30)
        relay.cut()
        assert eventually(lambda: relay.connections == 2)
        HeldEnv.may_go_on.set()
        player.join(30)
        assert "waited" in str(came[0].observation)
        assert "count 1" in str(env.step(ADD).observation)
        env.close()


def test_a_server_that_is_gone_is_an_infrastructure_error():
    with served(HELD) as server:
        env = server.env(reconnect_s=0.2)
        env.reset(seed=1)
    with pytest.raises(InfrastructureError, match="cannot reach"):
        env.step(ADD)
    assert env.reason is Reason.INFRASTRUCTURE
    with pytest.raises(InfrastructureError, match="cannot reach"):
        env.reset(seed=1)
    env.close()


def test_a_rollout_on_a_server_that_dies_fails_and_is_never_rewarded():
    server = Served(HELD)

    def act(messages: Any) -> Any:
        if server.is_running:
            server.stop()
        return "add"

    arguments = {"url": server.url, "token": TOKEN, "reconnect_s": 0.1}
    env = server.env()
    task = env.tasks.get("train", 0)
    env.close()
    factory = EnvFactory("agentgym.interop.remote:RemoteEnv", arguments)
    work = collect([Job(task, seed=1)], FunctionPolicy("stops", act), factory, Limits(retries=1))
    (trajectory,) = asyncio.run(work)
    assert (trajectory.ending, trajectory.reason) == (Ending.FAILED, Reason.INFRASTRUCTURE)
    assert "cannot reach" in str(trajectory.error)


def test_a_step_that_takes_too_long_says_so_and_ends_the_session():
    with served(HELD, request_s=0.3) as server:
        env = server.env()
        env.reset(seed=1)
        with pytest.raises(OutOfTime) as caught:
            env.step(WAIT)
        assert (caught.value.reason, caught.value.limit_s) == (Reason.STEP_TIME, 0.3)
        with pytest.raises(InfrastructureError, match="closed because a request took too long"):
            env.step(ADD)
        assert eventually(lambda: HeldEnv.closed == 1)
        env.reset(seed=1)  # a session of its own, while the old step still waits
        assert "count 1" in str(env.step(ADD).observation)
        env.close()


def test_an_asynchronous_step_that_takes_too_long_is_cancelled():
    with served("tests.served_envs:AsyncHeldEnv", request_s=0.3) as server:
        env = server.env()
        env.reset(seed=1)
        with pytest.raises(OutOfTime):
            env.step(call("pause"))
        assert HeldEnv.was_cancelled.wait(30)
        env.close()


def test_an_idle_session_is_closed_and_says_so():
    with served(HELD, idle_s=0.3) as server:
        env = server.env()
        env.reset(seed=1)
        assert eventually(lambda: len(server.sessions) == 0)
        with pytest.raises(InfrastructureError, match=r"closed after 0\.3 s without a request"):
            env.step(ADD)
        env.reset(seed=1)  # goes on in a new one
        assert "count 1" in str(env.step(ADD).observation)
        env.close()


def test_a_client_waits_for_a_place_and_gives_up_in_the_end():
    with served(HELD, sessions=1) as server:
        first = server.env()
        with pytest.raises(InfrastructureError, match="all 1 sessions of the server are taken"):
            server.env(reconnect_s=0.1)
        threading.Timer(0.3, first.close).start()
        second = server.env(reconnect_s=30.0)
        assert second.reset(seed=1)[1]["task"] == "held/train/0"
        second.close()


def test_closing_ends_the_session_and_a_reset_begins_another(held: Served):
    env = held.env()
    env.reset(seed=1)
    env.close()
    assert eventually(lambda: len(held.sessions) == 0)
    env.close()
    assert env.reset(seed=1)[1]["task"] == "held/train/0"
    env.close()


@pytest.mark.parametrize("token", ["", TOKEN[:-1] + "x", TOKEN[:-1], TOKEN + "x", "x" * len(TOKEN)])
def test_a_wrong_token_is_refused_at_once(held: Served, token: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("AGENTGYM_TOKEN", raising=False)
    with pytest.raises(UsageError, match="refuses the token"):
        held.env(token=token, reconnect_s=60.0)
    assert len(held.sessions) == 0


def test_the_token_comes_from_the_environment_and_is_not_shown(held: Served, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AGENTGYM_TOKEN", TOKEN)
    env = held.env(token=None)
    assert env.reset(seed=1)[1]["task"] == "held/train/0"
    assert TOKEN not in repr(env._connection._address)
    env.close()


@pytest.mark.parametrize("url", ["", "localhost:1", "ftp://localhost", "http://"])
def test_what_is_no_url_is_refused(url: str):
    with pytest.raises(UsageError, match="is not the URL of a server"):
        RemoteEnv(url)


def test_a_server_of_something_else_is_refused_in_one_line(held: Served):
    with pytest.raises(UsageError, match="or serves no environments"):
        held.env(f"{held.url}/elsewhere", reconnect_s=60.0)


def test_a_task_that_differs_here_and_there_is_refused(held: Served):
    env = held.env()
    task = env.tasks.get("train", 0)
    other = copy.copy(task)
    other.__dict__["hash"] = "another"
    with pytest.raises(TaskError, match="differs on the server"):
        env.reset(options={"task": other})
    assert env.reset(options={"task": task})[1]["task"] == task.id
    env.close()


def test_gold_stays_on_the_server(held: Served):
    env = held.env()
    env.reset(seed=1)
    task = env.tasks.get("train", 0)
    assert (task.gold, task.data, env.task.gold) == ({}, {}, {})
    assert task.hash == HeldEnv().tasks.get("train", 0).hash
    with pytest.raises(UsageError, match="--reveal"):
        next(iter(env.solution(task)))
    with pytest.raises(UsageError, match="--reveal"):
        env.failing(task)
    env.close()


def test_what_is_revealed_is_the_whole_task(catalog: Served):
    native, remote = agentgym.make("guess"), catalog.env(env="guess")
    assert remote.tasks.get("test", 2).to_dict() == native.tasks.get("test", 2).to_dict()
    assert CANARY not in json.dumps(remote.tasks.get("test", 2).to_dict())
    remote.close()


def test_a_fresh_copy_by_pickle_is_a_session_of_its_own(held: Served):
    env = held.env()
    copied = pickle.loads(pickle.dumps(env))
    env.reset(seed=1)
    copied.reset(seed=1)
    env.step(ADD)
    assert "count 1" in str(copied.step(ADD).observation)
    assert len(held.sessions) == 2
    env.close()
    copied.close()


@pytest.mark.real
def test_a_forked_child_leaves_the_session_to_its_parent(held: Served):
    env = held.env()
    env.reset(seed=1)
    env.step(ADD)
    child = os.fork()
    if not child:
        try:
            env.reset(seed=1)
            text = str(env.step(ADD).observation)
            env.close()
            os._exit(0 if "count 1" in text else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert "count 2" in str(env.step(ADD).observation)
    env.close()


def test_an_interrupted_wait_leaves_no_reply_behind_for_the_next_request(held: Served):
    env = held.env()
    env.reset(seed=1)
    connection, real = env._connection, env._connection._once

    def interrupted(content: Any) -> Any:
        real(content)
        raise KeyboardInterrupt

    connection._once = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        env.step(ADD)
    connection._once = real  # type: ignore[method-assign]
    env.reset(seed=1)
    assert "count 1" in str(env.step(ADD).observation)
    env.close()


def test_many_threads_with_a_session_each_do_not_mix(held: Served):
    def play(turns: int) -> list[str]:
        env = held.env()
        env.reset(seed=1)
        texts = [str(env.step(ADD).observation) for _ in range(turns)]
        env.close()
        return texts

    texts_by_turns: dict[int, list[str]] = {}
    threads = [threading.Thread(target=lambda n=n: texts_by_turns.update({n: play(n)})) for n in range(1, 13)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for turns in range(1, 13):
        assert [f"count {n}" in text for n, text in enumerate(texts_by_turns[turns], 1)] == [True] * turns


def test_a_request_that_is_larger_than_the_server_takes_is_refused_here():
    with served(HELD, request_bytes=10_000) as server:
        env = server.env()
        env.reset(seed=1)
        with pytest.raises(UsageError, match="accepts 10000 at most"):
            env.step("x" * 20_000)
        env.close()
