"""Environments and policies of outsiders: whatever they do, it costs their own episodes, and is recorded as it was."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import psutil
import pytest

from agentgym.endings import Reason
from agentgym.errors import UsageError
from agentgym.foreign.closing import closed_after
from agentgym.messages import Message, ToolCall
from agentgym.policy import FunctionPolicy, Generation, ScriptedPolicy
from agentgym.rollout import Backoff, EnvFactory, Failures, Group, Job, Limits, RolloutEngine, collect
from agentgym.seat import Seat
from agentgym.toolset import tool
from agentgym.trajectory import Trajectory
from tests.counter_env import Counter, call, groups
from tests.rollout_cases import Factory, Letters, Speaker
from tests.waiting import eventually

COUNTER = Factory(build=Counter)
ADD = Counter().dialect.render("", [ToolCall("add", {"number": 1})], Counter.tools)
DONE = Counter().dialect.render("", [ToolCall("done")], Counter.tools)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("apart", "loops"):
        monkeypatch.setattr(f"agentgym.foreign.{module}.UNHEARD_S", 0.05)


def outside(name: str, **kwargs: Any) -> EnvFactory:
    return EnvFactory(f"tests.rollout.outside_envs:{name}", kwargs)


def jobs(count: int) -> list[Job]:
    return [job for group in groups(count) for job in group.jobs]


def play(
    factory: EnvFactory = COUNTER, policy: Any = None, count: int = 1, workers: str = "threads", **limits: Any
) -> list[Trajectory]:
    bounds = Limits(**{"retries": 0, **limits})
    with RolloutEngine(factory, policy or ScriptedPolicy(), bounds, workers=workers) as engine:
        return [group.trajectories[0] for group in engine.collect(groups(count))]


def played(trajectory: Trajectory) -> Any:
    """What must be the same wherever the environment runs; it must be readable, too."""
    Trajectory.from_dict(json.loads(json.dumps(trajectory.to_dict(), allow_nan=False)))
    turns = [(turn.action, turn.observation, turn.rewards) for turn in trajectory.turns]
    return trajectory.opening, turns, trajectory.reason, trajectory.details


# What does not listen.


@pytest.mark.parametrize(("name", "workers"), [("Unheeding", "threads"), ("Masking", "threads"), ("Masking", "inline")])
def test_a_limit_holds_for_an_environment_that_does_not_listen_and_has_its_own_ending(name: str, workers: str):
    found = play(outside(name), count=3, workers=workers, step_timeout_s=0.1)
    assert [(t.reason, t.component) for t in found] == [(Reason.STEP_TIME, "step")] * 3


async def _deaf(messages: list[Message]) -> str:
    while True:
        try:
            await asyncio.sleep(3600)
        except BaseException:
            continue


def test_a_limit_holds_for_a_policy_that_does_not_listen():
    [found] = play(policy=FunctionPolicy("deaf", _deaf), generation_timeout_s=0.1)
    assert (found.reason, found.component) == (Reason.INFRASTRUCTURE, "policy")
    assert "longer than its limit" in str(found.error)


def test_leaving_and_closing_do_not_wait_for_what_does_not_listen():
    engine = RolloutEngine(COUNTER, FunctionPolicy("deaf", _deaf), Limits(generation_timeout_s=None))

    def go() -> None:
        with pytest.raises(UsageError, match="closed"):
            list(engine.trajectories(jobs(2)))

    playing = threading.Thread(target=go)
    playing.start()
    assert eventually(lambda: "policy" in engine.waits.report())
    engine.close()
    playing.join(60)
    assert not playing.is_alive()


def test_a_solution_that_blocks_holds_up_no_other_episode_and_has_a_limit():
    go = threading.Event()

    class Blocking(Counter):
        def solution(self, task: Any) -> Any:
            if task.id.endswith("/0"):
                go.wait()
            yield from super().solution(task)

    found = play(Factory(build=Blocking), count=3, generation_timeout_s=0.2)
    go.set()
    assert [(t.reason, t.component) for t in found] == [
        (Reason.INFRASTRUCTURE, "policy"),
        (Reason.ANSWERED, None),
        (Reason.ANSWERED, None),
    ]


@pytest.mark.real
@pytest.mark.parametrize("workers", ["inline", "threads", "processes"])
@pytest.mark.parametrize("name", ["Stopping", "Exiting"])
def test_an_environment_that_stops_the_event_loop_stops_nothing(name: str, workers: str):
    assert [t.reason for t in play(outside(name), count=3, workers=workers)] == [Reason.ANSWERED] * 3


@pytest.mark.parametrize("name", ["Stopping", "Exiting"])
def test_without_a_rollout_it_stops_nothing_either(name: str):
    with closed_after(outside(name)()) as env:
        for seed in range(2):
            env.reset(seed=seed)
            assert env.step(call("done"))[2]


@pytest.mark.real
@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize("name", ["Respawning", "Lingering"])
def test_closing_does_not_wait_for_what_never_ends(name: str, workers: str):
    assert [t.reason for t in play(outside(name), count=3, workers=workers)] == [Reason.ANSWERED] * 3


def test_a_policy_that_closes_its_engine_is_told_so_and_the_engine_goes_on():
    engines: list[RolloutEngine] = []

    def ask(messages: list[Message]) -> None:
        if len(asked) < 1:
            asked.append(1)
            engines[0].close()

    asked: list[int] = []
    with RolloutEngine(COUNTER, FunctionPolicy("closing", ask)) as engine:
        engines.append(engine)
        with pytest.raises(UsageError, match="cannot be closed from inside"):
            engine.collect(groups(2))
        assert [t.reason for t in engine.trajectories(jobs(2))] == [Reason.GAVE_UP] * 2


# Worker processes.


@pytest.mark.real
def test_whatever_is_raised_in_a_process_is_told_at_once():
    found = play(outside("Muted"), count=3, workers="processes", step_timeout_s=None)
    assert [(t.reason, t.component) for t in found] == [(Reason.INFRASTRUCTURE, "step")] * 3
    assert "Mute" in str(found[0].error)


@pytest.mark.real
@pytest.mark.parametrize("name", ["Locked", "Editing"])
def test_what_an_environment_tells_is_the_same_in_every_process(name: str):
    here, there = ([played(t) for t in play(outside(name), count=3, workers=w)] for w in ("threads", "processes"))
    assert here == there
    assert "changed" not in str(here)


@pytest.mark.real
def test_the_end_of_a_process_is_noticed_although_its_children_live_on(tmp_path: Path):
    found = play(outside("Survived", folder=str(tmp_path)), count=4, workers="processes", step_timeout_s=None)
    os.kill(int((tmp_path / "died").read_text()), signal.SIGKILL)
    assert [t.reason for t in found] == [Reason.ANSWERED] * 4


@pytest.mark.real
def test_tasks_that_end_their_process_cost_no_other_episode(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentgym.rollout.streams.LOST_WORKERS", 3)
    found = play(outside("Deadly"), count=40, workers="processes", max_in_flight=16)
    assert [t.component for t in found] == ["worker" if i % 5 == 0 else None for i in range(40)]


@pytest.mark.real
def test_what_an_environment_started_ends_with_its_process(tmp_path: Path):
    found = play(outside("Leaving", folder=str(tmp_path)), count=2, workers="processes", step_timeout_s=0.5)
    assert [t.reason for t in found] == [Reason.STEP_TIME] * 2
    programs = [int(one.name) for one in tmp_path.iterdir()]
    assert len(programs) == 2
    assert eventually(lambda: not any(map(psutil.pid_exists, programs)))


def test_an_environment_that_could_not_be_made_at_first_still_says_how_many_may_exist():
    made: list[Any] = []
    running: list[Any] = []
    most: list[int] = []

    class Flaky(Counter):
        max_concurrent = 2

        def __init__(self) -> None:
            made.append(self)
            if len(made) < 3:
                raise OSError("not yet")
            super().__init__()

        def start(self, task: Any) -> None:
            super().start(task)
            running.append(self)
            most.append(len(running))

        @tool
        def done(self) -> str:
            """Say that the goal is reached."""
            time.sleep(0.01)
            running.remove(self)
            return super().done()

    play(Factory(build=Flaky), count=20)
    assert max(most) == 2


# What is recorded is what was played.


def test_a_policy_that_changes_what_it_was_shown_changes_no_record():
    def ask(messages: list[Message]) -> str | None:
        messages[-1]["content"] = "changed"
        return ADD if len(messages) < 6 else None

    [found] = play(policy=FunctionPolicy("editor", ask))
    assert "changed" not in str(played(found))
    assert len(found.turns) == 3


def test_a_policy_that_uses_its_message_again_changes_no_record():
    message = call("add", number=0)

    class Player:
        said = 0

        async def act(self, observation: list[Message]) -> Any:
            self.said += 1
            message["tool_calls"][0]["function"]["arguments"] = json.dumps({"number": self.said})
            return message if self.said < 4 else None

    [found] = play(policy=_Played(lambda seat: Player()))
    numbers = [turn.action["tool_calls"][0]["function"]["arguments"] for turn in found.turns[:3]]  # type: ignore[index]
    assert numbers == ['{"number": 1}', '{"number": 2}', '{"number": 3}']


class _Played:
    """A policy with players of a kind."""

    name = "played"

    def __init__(self, player: Callable[[Seat], Any], usage: Any = None):
        self.player, self._usage = player, usage


@pytest.mark.real
@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize(
    ("wrap", "reason"),
    [
        (MappingProxyType, None),
        (lambda message: {**message, "extra": threading.Lock()}, Reason.INFRASTRUCTURE),
        (lambda message: {**message, "me": message} | {"loop": _loop()}, Reason.INFRASTRUCTURE),
    ],
)
def test_a_message_of_a_policy_is_json_data_or_the_policys_fault(wrap: Any, reason: Reason | None, workers: str):
    def ask(messages: list[Message]) -> Any:
        return wrap(call("add", number=1)) if len(messages) < 4 else None

    factory = EnvFactory("tests.counter_env:Counter", {})
    [found] = play(factory, FunctionPolicy("odd", ask), workers=workers)
    played(found)
    assert found.reason is (reason or Reason.GAVE_UP)
    assert found.component == (reason and "policy")


def _loop() -> Any:
    made: list[Any] = []
    made.append(made)
    return made


@pytest.mark.parametrize(
    ("usage", "kept"),
    [
        (None, {}),
        ([1], {}),
        ({"cost": nan}, {}),
        ({"tokens": object()}, {}),
        ({"tokens": 3, "cost": "much"}, {"tokens": 3}),
    ],
)
def test_a_usage_that_is_none_is_left_out_and_loses_no_episode(usage: Any, kept: dict[str, float]):
    class Player:
        async def act(self, observation: list[Message]) -> None:
            return None

    player: Any = Player()
    player.usage = usage
    [found] = play(policy=_Played(lambda seat: player))
    played(found)
    assert (found.reason, found.usage) == (Reason.GAVE_UP, kept)


@pytest.mark.parametrize("name", ["rewards", "turn", "counts", "ending", "tools", "task"])
def test_details_cannot_replace_what_the_engine_tells(name: str):
    class Telling(Counter):
        def details(self) -> dict[str, Any]:
            return {name: {"outcome": 1.0}}

    with pytest.raises(UsageError, match=name):
        play(Factory(build=Telling))


# Token policies.


class _Changing(Speaker):
    def __init__(self, change: Callable[[Generation], Any]):
        super().__init__([ADD, DONE])
        self._change = change

    async def generate(self, ids: Any, max_new_tokens: int, session: str, **options: Any) -> Any:
        return self._change(await super().generate(ids, max_new_tokens, session, **options))


@pytest.mark.parametrize(
    "change",
    [
        lambda said: None,
        lambda said: (said.ids, said.logprobs),
        lambda said: replace(said, logprobs=said.logprobs[1:]),
        lambda said: replace(said, logprobs=[*said.logprobs, -1.0]),
        lambda said: replace(said, logprobs=None),
        lambda said: replace(said, logprobs=[nan] * len(said.ids)),
        lambda said: replace(said, logprobs=[-inf] * len(said.ids)),
        lambda said: replace(said, logprobs=[*np.zeros(len(said.ids), dtype=np.float32)]),
        lambda said: replace(said, ids=[*map(np.int64, said.ids)]),
        lambda said: replace(said, ids=[-1, *said.ids[1:]]),
        lambda said: replace(said, ids="x" * len(said.ids)),
        lambda said: replace(said, ids=said.ids * 20, logprobs=said.logprobs * 20),
        lambda said: replace(said, version=-5),
        lambda said: replace(said, version=None),
    ],
)
def test_a_turn_that_cannot_be_recorded_or_trained_on_is_the_policys_fault(change: Callable[[Generation], Any]):
    [found] = play(policy=_Changing(change), max_new_tokens=100)
    played(found)
    assert (found.reason, found.component) == (Reason.INFRASTRUCTURE, "policy")
    assert found.tokens is not None
    assert found.tokens.completion_ids == []


def test_versions_of_one_episode_are_recorded_in_whatever_order():
    [found] = play(policy=_Changing(lambda said: replace(said, version=9 - said.version)))
    assert found.tokens is not None
    assert found.reason is Reason.ANSWERED
    assert [found.tokens.versions[turn.span[0]] for turn in found.turns if turn.span] == [9, 8]


def _boom(*_: Any) -> Any:
    raise KeyError("boom")


@pytest.mark.parametrize("broken", [_boom, lambda *_: None, lambda *_: [1.5], lambda *_: "text"])
@pytest.mark.parametrize("place", ["open", "extend"])
def test_a_codec_that_breaks_is_the_policys_fault(place: str, broken: Any):
    codec = type("Broken", (Letters,), {place: broken})()
    policy = Speaker([ADD, DONE])
    policy.codec = codec
    [found] = play(policy=policy)
    assert (found.reason, found.component) == (Reason.INFRASTRUCTURE, "policy")
    assert found.turns == [] or found.tokens
    assert played(found)


def test_a_policy_that_has_no_player_is_at_fault_itself():
    [found] = play(policy=_Played(_boom))
    assert (found.reason, found.component) == (Reason.INFRASTRUCTURE, "policy")


# Work.


def test_two_iterations_of_one_engine_do_not_play_one_conversation_twice():
    go = asyncio.Event()

    async def ask(messages: list[Message]) -> None:
        await go.wait()

    with RolloutEngine(COUNTER, FunctionPolicy("slow", ask)) as engine:
        first = engine.trajectories(jobs(2))
        playing = threading.Thread(target=lambda: list(first))
        playing.start()
        assert eventually(lambda: "policy" in engine.waits.report())
        with pytest.raises(UsageError, match="two jobs are called"):
            list(engine.trajectories(jobs(1)))
        engine._loop.soon(go.set)
        playing.join(60)
        assert len(list(engine.trajectories(jobs(2)))) == 2


def test_iterations_at_once_share_the_room_of_their_engine():
    made: list[Any] = []
    running: list[Any] = []
    most: list[int] = []

    class Narrow(Counter):
        max_concurrent = 2

        def __init__(self) -> None:
            made.append(self)
            super().__init__()

        def start(self, task: Any) -> None:
            super().start(task)
            running.append(self)
            most.append(len(running))

        @tool
        def done(self) -> str:
            """Say that the goal is reached."""
            time.sleep(0.01)
            running.remove(self)
            return super().done()

    found: list[str] = []
    with RolloutEngine(Factory(build=Narrow), ScriptedPolicy(), Limits(max_in_flight=8)) as engine:
        work = groups(30)
        shares = [work[0:12], work[12:24], work[24:30], []]

        def play(share: list[Group]) -> None:
            found.extend(played.group.task.id for played in engine.play(share))

        playing = [threading.Thread(target=play, args=(share,)) for share in shares]
        for one in playing:
            one.start()
        for one in playing:
            one.join(60)
    assert sorted(found) == sorted(group.task.id for group in work)
    assert max(most) == 2
    assert len(made) == 2


def test_an_iteration_that_nobody_goes_on_with_leaves_its_room_to_others():
    with RolloutEngine(COUNTER, ScriptedPolicy(), Limits(max_in_flight=2)) as engine:
        work = groups(30)
        first = engine.play(work[:20])
        next(first)
        assert len(list(engine.play(work[20:]))) == 10
        assert len(list(first)) == 19


def test_who_leaves_while_waiting_for_room_takes_none():
    go = asyncio.Event()

    async def ask(messages: list[Message]) -> None:
        await go.wait()

    async def play_on(engine: RolloutEngine) -> None:
        async for _ in engine.stream(groups(5)[1:]):
            pass

    async def leave(engine: RolloutEngine) -> None:
        waiting = asyncio.create_task(play_on(engine))
        await asyncio.sleep(0.1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    with RolloutEngine(COUNTER, FunctionPolicy("slow", ask), Limits(max_in_flight=1)) as engine:
        playing = threading.Thread(target=lambda: engine.collect(groups(1)))
        playing.start()
        assert eventually(lambda: "policy" in engine.waits.report())
        asyncio.run(leave(engine))
        engine._loop.soon(go.set)
        playing.join(60)
        assert len(engine.collect(groups(5))) == 5


def test_all_of_a_generator_is_collected_and_none_is_mistaken_for_another():
    with RolloutEngine(COUNTER, ScriptedPolicy(), Limits(max_in_flight=1)) as engine:
        assert len(engine.collect(group for group in groups(3))) == 3  # type: ignore[arg-type]
        task = groups(1)[0].task
        with pytest.raises(UsageError, match="two jobs"):
            engine.collect([Group(task, 1), Group(task, 2)])
    limits = Limits(max_in_flight=1)
    found = asyncio.run(collect((job for job in jobs(3)), ScriptedPolicy(), COUNTER))  # type: ignore[arg-type]
    assert len(found) == 3
    with pytest.raises(UsageError, match="two jobs"):
        asyncio.run(collect([Job(task, 1), Job(task, 2)], ScriptedPolicy(), COUNTER, limits))


def test_what_is_no_job_is_refused_instead_of_ending_the_rollout():
    with (
        RolloutEngine(COUNTER, ScriptedPolicy()) as engine,
        pytest.raises(UsageError, match="jobs and groups, not a NoneType"),
    ):
        list(engine.trajectories([*jobs(1), None, *jobs(3)[1:]]))  # type: ignore[list-item]


def test_what_the_work_raises_comes_through_whatever_it_is():
    def work() -> Iterator[Job]:
        yield from jobs(2)
        raise asyncio.CancelledError("mine")

    with RolloutEngine(COUNTER, ScriptedPolicy()) as engine:
        with pytest.raises(asyncio.CancelledError, match="mine"):
            list(engine.trajectories(work()))
        assert len(list(engine.trajectories(jobs(2)))) == 2


# Settings.


@pytest.mark.parametrize(
    "limits",
    [
        *({"max_in_flight": value} for value in (nan, inf, 1.5, "3", None)),
        *({"retries": value} for value in (nan, inf, 0.5, "3", None)),
        *({"max_new_tokens": value} for value in (0, -1, nan, inf, 1.5, "3", None)),
        *({"max_tokens": value} for value in (0, -1, nan, inf, 1.5, "3")),
        *({"step_timeout_s": value} for value in (nan, -inf, "3")),
    ],
)
def test_limits_that_are_none_are_refused(limits: dict[str, Any]):
    with pytest.raises(UsageError, match=next(iter(limits))):
        Limits(**limits)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Backoff(first_s=-1.0),
        lambda: Backoff(first_s=nan),
        lambda: Backoff(most_s=inf),
        lambda: Backoff(jitter=2.0),
        lambda: Failures(at_least=nan),  # type: ignore[arg-type]
        lambda: Group(groups(1)[0].task, 0, 1.5),  # type: ignore[arg-type]
        lambda: Group(groups(1)[0].task, 0, nan),  # type: ignore[arg-type]
    ],
)
def test_settings_that_are_none_are_refused(make: Callable[[], Any]):
    with pytest.raises(UsageError):
        make()


def test_the_wait_before_any_retry_is_bounded():
    from random import Random

    assert 0.5 <= Backoff().wait_s(5_000, Random(0)) <= 1.0


SIGNAL = """
import os, signal, sys
from agentgym.policy import ScriptedPolicy
from agentgym.rollout import EnvFactory, RolloutEngine

with RolloutEngine(EnvFactory("guess", {}), ScriptedPolicy()):
    sys.stderr = open(os.devnull, "w") if sys.argv[1] == "closed" else None
    if sys.stderr is not None:
        sys.stderr.close()
    os.kill(os.getpid(), signal.SIGUSR1)
print("went on")
"""


@pytest.mark.real
@pytest.mark.parametrize("error", ["closed", "none"])
def test_a_report_that_cannot_be_printed_ends_nothing(error: str):
    done = subprocess.run([sys.executable, "-c", SIGNAL, error], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("went on\n", 0)
