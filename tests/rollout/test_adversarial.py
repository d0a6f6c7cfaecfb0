"""A rollout engine survives interruptions at any moment, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from agentgym.base.errors import UsageError
from agentgym.core.endings import Reason
from agentgym.core.messages import Message
from agentgym.core.policy import FunctionPolicy, ScriptedPolicy
from agentgym.rollout import EnvFactory, Group, Limits, RolloutEngine
from agentgym.rollout.workers.processes import ProcessWorkers
from tests.counter_env import groups
from tests.rollout.slow_envs import Slow
from tests.rollout.worker_processes import workers_alive
from tests.rollout_cases import Factory, play_groups
from tests.waiting import HANG_S, eventually

pytestmark = pytest.mark.real

COUNTER = EnvFactory("tests.counter_env:Counter", {})


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """No worker process, thread of an engine, or descriptor outlives a test."""
    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    yield
    gc.collect()
    _, alive = psutil.wait_procs(workers_alive(), timeout=HANG_S)
    assert alive == []
    assert [t for t in threading.enumerate() if t.name == "agentgym-rollout"] == []
    if sys.platform == "linux":
        assert len(os.listdir("/proc/self/fd")) <= before


async def never(conversation: list[Message]) -> None:
    await asyncio.sleep(3600)


def until(condition: Any) -> None:
    assert eventually(condition)


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_closing_an_engine_ends_its_iterations(workers: str):
    engine = RolloutEngine(COUNTER, FunctionPolicy("never", never), workers=workers)
    raised: list[BaseException] = []

    def play() -> None:
        try:
            engine.collect(groups(5))
        except BaseException as error:
            raised.append(error)

    playing = threading.Thread(target=play)
    playing.start()
    until(lambda: "waits for policy" in engine.waits.report())
    engine.close()
    playing.join(HANG_S)
    assert [str(error) for error in raised] == ["the rollout engine was closed while it played"]
    assert engine.waits.report() == "no trajectory waits for anything"


def test_a_usage_error_of_a_policy_ends_all_episodes():
    async def ask(conversation: list[Message]) -> None:
        if "Count to 3" in str(conversation):
            raise UsageError("the endpoint does not exist")
        await asyncio.sleep(3600)

    with (
        RolloutEngine(COUNTER, FunctionPolicy("mixed", ask)) as engine,
        pytest.raises(UsageError, match="the endpoint does not exist"),
    ):
        engine.collect(groups(5))


@pytest.mark.parametrize("workers", ["inline", "threads", "processes"])
def test_a_caller_can_be_interrupted_at_any_moment(workers: str):
    """The caller is cancelled after different numbers of loop iterations; the engine stays usable."""

    async def interrupted(engine: RolloutEngine, after: int) -> None:
        async def play() -> None:
            async for _ in engine.stream([Group(g.task, g.seed, 1, after) for g in groups(3)]):
                pass

        playing = asyncio.create_task(play())
        for _ in range(after):
            await asyncio.sleep(0.001)
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)

    with RolloutEngine(
        Factory(build=Slow) if workers == "threads" else COUNTER,
        ScriptedPolicy(),
        Limits(max_in_flight=3),
        workers=workers,
    ) as engine:
        for after in range(0, 60, 6):
            asyncio.run(interrupted(engine, after))
        assert all(group.real for group in engine.collect(groups(6)))
        until(lambda: engine.waits.report() == "no trajectory waits for anything")


def test_a_forked_process_cannot_use_its_parents_engine():
    with RolloutEngine(COUNTER, ScriptedPolicy()) as engine:
        play = iter(engine.play(groups(30)))
        next(play)
        child = os.fork()
        if child == 0:
            try:
                next(play)
            except UsageError as error:
                os._exit(0 if "belongs to the parent process" in str(error) else 2)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(list(play)) == 29


NEVER_CLOSED = """
import sys
from agentgym.core.policy import ScriptedPolicy
from agentgym.rollout import Limits, RolloutEngine, EnvFactory
from tests.counter_env import groups

factory = EnvFactory("tests.counter_env:Counter", {})
engine = RolloutEngine(factory, ScriptedPolicy(), Limits(max_in_flight=3), workers=sys.argv[1])
play = iter(engine.play(groups(100)))
next(play)
print("left")
"""


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_an_unclosed_engine_does_not_keep_the_process_alive(workers: str):
    done = subprocess.run([sys.executable, "-c", NEVER_CLOSED, workers], capture_output=True, text=True, timeout=HANG_S)
    assert (done.stdout, done.stderr, done.returncode) == ("left\n", "", 0)


INTERRUPTED = """
import asyncio, signal, sys
from agentgym.core.policy import FunctionPolicy
from agentgym.rollout import RolloutEngine, EnvFactory
from tests.counter_env import groups

signal.signal(signal.SIGINT, signal.default_int_handler)  # the test runner may ignore it

async def never(conversation):
    await asyncio.sleep(3600)

class Reporting(FunctionPolicy):
    def player(self, seat):
        print("playing", flush=True)
        return super().player(seat)

counter = EnvFactory("tests.counter_env:Counter", {})
with RolloutEngine(counter, Reporting("never", never), workers=sys.argv[1]) as engine:
    try:
        engine.collect(groups(1))
    except KeyboardInterrupt:
        print(engine.waits.report())
"""


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_ctrl_c_ends_an_iteration_and_its_episodes(workers: str):
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, workers], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "playing\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=HANG_S)
    assert (out, err, process.returncode) == ("no trajectory waits for anything\n", "", 0)


# Worker processes.


def test_a_process_that_is_stuck_as_a_whole_is_killed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentgym.rollout.workers.fleet.ANSWER_S", 0.2)
    factory = EnvFactory("tests.rollout.worker_envs:Deaf", {})
    workers = ProcessWorkers(factory, 4, processes=1)
    trajectories = play_groups(factory, groups(4), workers=workers, max_in_flight=4, step_timeout_s=1.0)
    assert trajectories[0].reason is Reason.STEP_TIME
