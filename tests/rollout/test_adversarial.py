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
from tests.counter_env import Counter, groups
from tests.rollout.slow_envs import Slow
from tests.rollout.worker_processes import workers_alive
from tests.rollout_cases import Factory, play_groups
from tests.waiting import eventually

pytestmark = pytest.mark.real

COUNTER = EnvFactory("tests.counter_env:Counter", {})


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """No worker process, thread of an engine, or descriptor outlives a test."""
    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    yield
    gc.collect()
    _, alive = psutil.wait_procs(workers_alive(), timeout=10)
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
    playing.join(30)
    assert [str(error) for error in raised] == ["the rollout engine was closed while it played"]
    assert engine.waits.report() == "no trajectory waits for anything"


def test_an_iteration_of_a_closing_engine_raises():
    closing, go = threading.Event(), threading.Event()

    class Watched(Counter):
        def release(self) -> None:
            closing.set()
            go.wait(60)

    engine = RolloutEngine(Factory(build=Watched), ScriptedPolicy(), Limits(max_in_flight=1))
    play = iter(engine.play(groups(50)))
    next(play)
    ending = threading.Thread(target=engine.close)
    ending.start()
    assert closing.wait(60)
    with pytest.raises(UsageError, match="closed while it played"):
        next(play)
    go.set()
    ending.join()


def test_the_engines_own_thread_may_collect_an_unfinished_iteration():
    later: list[Any] = []

    async def collect_garbage(conversation: list[Message]) -> None:
        if later and later.pop():
            gc.collect()

    with RolloutEngine(COUNTER, FunctionPolicy("gc", collect_garbage), Limits(max_in_flight=2)) as engine:
        cycle: dict[str, Any] = {}
        cycle["self"], cycle["play"] = cycle, engine.play(groups(100))
        next(cycle["play"])
        del cycle
        later.append(True)
        assert len(engine.collect([Group(g.task, g.seed, 1, 5) for g in groups(9)])) == 9
        until(lambda: engine.waits.report() == "no trajectory waits for anything")


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


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_a_forked_process_cannot_use_its_parents_engine(workers: str):
    with RolloutEngine(COUNTER, ScriptedPolicy(), workers=workers) as engine:
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


def test_worker_processes_end_although_a_forked_process_lives_on():
    ready, go_on = os.pipe(), os.pipe()
    with RolloutEngine(COUNTER, ScriptedPolicy(), workers="processes") as engine:
        engine.collect(groups(1))
        if not (child := os.fork()):
            os.close(go_on[1])
            os.write(ready[1], b"x")
            os.read(go_on[0], 1)
            os._exit(0)
        os.read(ready[0], 1)
    assert workers_alive() == []
    os.write(go_on[1], b"x")
    os.waitpid(child, 0)
    for descriptor in (*ready, *go_on):
        os.close(descriptor)


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
    done = subprocess.run([sys.executable, "-c", NEVER_CLOSED, workers], capture_output=True, text=True, timeout=60)
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
    out, err = process.communicate(timeout=60)
    assert (out, err, process.returncode) == ("no trajectory waits for anything\n", "", 0)


# Worker processes.


def test_killing_workers_at_their_start_fails_no_episode():
    engine = RolloutEngine(COUNTER, ScriptedPolicy(), Limits(max_in_flight=4), workers="processes")
    played_groups: list[Any] = []
    playing = threading.Thread(target=lambda: played_groups.extend(engine.collect(groups(8))))
    playing.start()
    until(lambda: len(workers_alive()) >= 2)
    for process in workers_alive():
        process.kill()
    playing.join(60)
    assert [len(group.real) for group in played_groups] == [1] * 8
    for process in workers_alive():  # idle ones
        process.kill()
    assert [len(group.real) for group in engine.collect(groups(8))] == [1] * 8
    engine.close()


@pytest.mark.nightly  # a slow machine is over the limit
def test_a_stuck_environment_does_not_fail_others_in_its_process():
    factory = EnvFactory("tests.rollout.worker_envs:Parted", {})
    limits = Limits(max_in_flight=8, retries=0, step_timeout_s=1.5)
    workers = ProcessWorkers(factory, 8, processes=1)
    with RolloutEngine(factory, ScriptedPolicy(), limits, workers=workers) as engine:
        trajectories = [group.trajectories[0] for group in engine.collect(groups(8))]
        assert [t.reason for t in trajectories] == [Reason.STEP_TIME, *[Reason.ANSWERED] * 7]
        assert engine.tally.failed == {"step": 1}
        until(lambda: not workers.pids)


def test_a_process_that_is_stuck_as_a_whole_is_killed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentgym.rollout.workers.fleet.ANSWER_S", 0.2)
    factory = EnvFactory("tests.rollout.worker_envs:Deaf", {})
    workers = ProcessWorkers(factory, 4, processes=1)
    trajectories = play_groups(factory, groups(4), workers=workers, max_in_flight=4, step_timeout_s=1.0)
    assert trajectories[0].reason is Reason.STEP_TIME


def test_a_process_that_is_stuck_before_its_first_episode_is_killed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentgym.rollout.workers.fleet.START_S", 2.0)
    factory = EnvFactory("tests.rollout.worker_envs:Seizing", {})
    [trajectory] = play_groups(factory, groups(1), workers="processes", max_in_flight=1, reset_timeout_s=0.1)
    assert trajectory.reason is Reason.RESET_TIME


def test_an_unreadable_reply_fails_its_episode(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentgym.rollout.streams.LOST_WORKERS", 1)
    factory = EnvFactory("tests.rollout.worker_envs:Unreadable", {})
    [trajectory] = play_groups(factory, groups(1), workers=ProcessWorkers(factory, 1), max_in_flight=1)
    assert trajectory.failed
    assert "no such class here" in str(trajectory.error)


def test_a_stuck_policy_does_not_kill_processes():
    calls: list[int] = []

    async def ask(conversation: list[Message]) -> None:
        calls.append(1)
        await asyncio.sleep(0 if len(calls) > 3 else 3600)

    factory = EnvFactory("tests.rollout.worker_envs:Located", {})
    limits = Limits(max_in_flight=1, retries=5, generation_timeout_s=0.1)
    workers = ProcessWorkers(factory, 1, processes=1)
    with RolloutEngine(factory, FunctionPolicy("slow", ask), limits, workers=workers) as engine:
        trajectories = [group.trajectories[0] for group in engine.play(groups(3))]
        assert engine.tally.failed == {"policy": 3}
    assert len({t.details["pid"] for t in trajectories}) == 1


def test_an_abandoned_environment_of_a_process_is_closed():
    factory = EnvFactory("tests.rollout.worker_envs:Accounted", {})
    workers = ProcessWorkers(factory, 3, processes=1)
    with RolloutEngine(factory, ScriptedPolicy(), Limits(max_in_flight=3), workers=workers) as engine:
        next(iter(engine.play(groups(9))))

        def there() -> int:
            return engine.collect(groups(1))[0].trajectories[0].details["there"]

        until(lambda: there() == 1)
        assert there() == 1


# Constructors.


class Hesitant(Counter):
    """Its constructor hangs the second time."""

    instances: list[int] = []
    go_on = threading.Event()

    def __init__(self) -> None:
        super().__init__()
        self.instances.append(1)
        if len(self.instances) == 2:
            self.go_on.wait(60)


def test_a_constructor_that_hangs_fails_its_own_try_alone():
    Hesitant.instances.clear()
    Hesitant.go_on.clear()
    limits = Limits(max_in_flight=6, retries=1, reset_timeout_s=0.3)
    try:
        with RolloutEngine(Factory(build=Hesitant), ScriptedPolicy(), limits) as engine:
            played_groups = engine.collect(groups(6))
            assert engine.tally.failed == {"making": 1}
    finally:
        Hesitant.go_on.set()
    assert all(group.real for group in played_groups)
