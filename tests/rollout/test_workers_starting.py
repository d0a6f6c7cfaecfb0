"""Worker processes forked from a template behave like fresh ones."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import psutil
import pytest

from agentgym.core.policy import ScriptedPolicy
from agentgym.rollout import EnvFactory, Limits, RolloutEngine
from agentgym.rollout.workers.processes import ProcessWorkers
from agentgym.rollout.workers.starting import Child, OneByOne, Starter, Template
from agentgym.rollout.workers.template import REPORT
from tests.counter_env import groups
from tests.rollout_cases import play_groups

pytestmark = pytest.mark.real

STARTERS = [
    OneByOne,
    pytest.param(Template, marks=pytest.mark.skipif(sys.platform != "linux", reason="forks are safe on Linux only")),
]
PATIENCE_S = 60.0
MORE_THAN_FIT = 400
"""Descriptors to send; about 280 fill the socket."""


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    before = set(psutil.Process().children(recursive=True))
    yield
    _, alive = psutil.wait_procs(set(psutil.Process().children(recursive=True)) - before, timeout=10)
    assert alive == []


def with_starter(make: Callable[[], Starter], use: Callable[[Starter], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        starter = make()
        try:
            return await use(starter)
        finally:
            await starter.close()

    async def in_time() -> Any:
        return await asyncio.wait_for(run(), PATIENCE_S)

    return asyncio.run(in_time())


def start_process(starter: Starter) -> tuple[Child, socket.socket]:
    """Start a process, which waits for its factory."""
    ours, theirs = socket.socketpair()
    with theirs:
        return starter.start(theirs.fileno()), ours


async def pid_of(child: Child) -> int:
    while child.pid is None:
        await asyncio.sleep(0.01)
    return child.pid


@pytest.mark.parametrize("make", STARTERS)
def test_a_process_ends_with_the_other_end_of_its_socket(make: Callable[[], Starter]):
    async def use(starter: Starter) -> None:
        first, other = start_process(starter), start_process(starter)
        first[1].close()
        assert await first[0].ended() is not None
        assert psutil.pid_exists(await pid_of(other[0]))
        other[1].close()
        await other[0].ended()

    with_starter(make, use)


@pytest.mark.skipif(sys.platform != "linux", reason="forks are safe on Linux only")
def test_more_processes_than_a_template_has_room_for_start_one_after_the_other():
    async def use(starter: Starter) -> None:
        started = [start_process(starter) for _ in range(MORE_THAN_FIT)]
        for child, end in started[1:]:
            child.kill()
            end.close()
        assert psutil.pid_exists(await pid_of(started[0][0]))
        assert {await child.ended() for child, _ in started[1:]} <= {-signal.SIGKILL, 0}
        started[0][1].close()
        assert await started[0][0].ended() == 0
        assert starter.works

    with_starter(Template, use)


@pytest.mark.skipif(sys.platform != "linux", reason="forks are safe on Linux only")
def test_a_process_that_misses_the_end_of_its_rollout_is_killed():
    main = "from agentgym.rollout.workers import template; template.GRACE_S = 0.1; template.main()"
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        program = [sys.executable, "-c", main, str(theirs.fileno())]
        template = subprocess.Popen(program, pass_fds=(theirs.fileno(),))
    end, for_worker = socket.socketpair()
    with ours, end, for_worker:
        socket.send_fds(ours, [b"f"], [for_worker.fileno()])
        _, pid, _ = REPORT.unpack(ours.recv(REPORT.size))
        os.kill(pid, signal.SIGSTOP)  # as if its environment held on to everything
    assert template.wait(60) == 0
    assert not psutil.pid_exists(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="forks are safe on Linux only")
def test_a_request_to_a_template_that_is_gone_does_not_wait():
    async def use(starter: Starter) -> None:
        await starter.close()
        child, end = start_process(starter)
        end.close()
        assert await child.ended() is None

    with_starter(Template, use)


@pytest.mark.parametrize("make", STARTERS)
def test_an_unneeded_process_ends_silently(make: Callable[[], Starter], capfd):
    async def use(starter: Starter) -> int | None:
        child, end = start_process(starter)
        end.close()
        return await child.ended()

    assert with_starter(make, use) == 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("make", STARTERS)
@pytest.mark.parametrize("at_once", [True, False])
def test_a_killed_process_is_reaped_and_its_end_reported(make: Callable[[], Starter], at_once: bool):
    async def use(starter: Starter) -> int | None:
        child, end = start_process(starter)
        with end:
            if not at_once:
                await pid_of(child)
            child.kill()
            return await child.ended()

    assert with_starter(make, use) == -signal.SIGKILL


@pytest.mark.parametrize("make", STARTERS)
def test_episodes_are_the_same_however_processes_start(make: Callable[[], Starter], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentgym.rollout.workers.processes.make_starter", make)
    factory = EnvFactory("tests.rollout.worker_envs:Located", {})
    workers = ProcessWorkers(factory, 2, processes=2)
    trajectories = play_groups(factory, groups(6), workers=workers, max_in_flight=2)
    assert all(t.success for t in trajectories)
    assert os.getpid() not in {t.details["pid"] for t in trajectories}


@pytest.mark.skipif(sys.platform != "linux", reason="forks are safe on Linux only")
def test_a_dead_template_is_replaced():
    factory = EnvFactory("tests.rollout.worker_envs:Located", {})
    workers = ProcessWorkers(factory, 1, processes=1, episodes=2)
    with RolloutEngine(factory, ScriptedPolicy(), Limits(max_in_flight=1), workers=workers) as engine:
        (before,) = engine.collect(groups(1))[0].trajectories
        template = psutil.Process(before.details["pid"]).parent()
        assert template is not None
        assert template.pid != os.getpid()
        template.kill()
        after = [t for group in engine.collect(groups(5)) for t in group.trajectories]
    assert all(t.success for t in after)
    assert after[0].details["pid"] == before.details["pid"] != after[1].details["pid"]


def test_processes_that_were_forked_draw_different_random_numbers():
    factory = EnvFactory("tests.rollout.worker_envs:Drawing", {})
    workers = ProcessWorkers(factory, 1, processes=1, episodes=1)
    draws = [t.details["drawn"] for t in play_groups(factory, groups(3), workers=workers, max_in_flight=1)]
    assert len({first for first, _ in draws}) == len({other for _, other in draws}) == 3
