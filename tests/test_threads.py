"""Blocking work runs at once, in threads that are used again, and never holds up the process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import weakref
from contextvars import ContextVar

import pytest

from agentgym.engine.threads import Threads
from tests.waiting import eventually


def test_as_much_work_runs_at_once_as_is_there():
    async def play() -> list[int]:
        threads, barrier = Threads("t"), threading.Barrier(100)
        return await asyncio.gather(*(threads.run(lambda: barrier.wait(30)) for _ in range(100)))

    assert sorted(asyncio.run(play())) == list(range(100))


def test_threads_are_used_again():
    async def play() -> set[int]:
        threads = Threads("t")
        return {await threads.run(threading.get_ident) for _ in range(50)}

    assert len(asyncio.run(play())) == 1


@pytest.mark.parametrize("error", [OSError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_whatever_is_raised_comes_back_to_who_asked(error: type[BaseException]):
    def work() -> None:
        raise error("no")

    async def play() -> bool:
        try:
            await Threads("t").run(work)
        except error:
            return True
        return False

    assert asyncio.run(play())


def test_an_exception_that_is_a_result_is_one():
    result = asyncio.run(Threads("t").run(lambda: ValueError("just data")))
    assert isinstance(result, ValueError)


def test_work_sees_the_context_of_who_asked():
    name: ContextVar[str] = ContextVar("name")

    async def play() -> str:
        name.set("caller")
        return await Threads("t").run(name.get)

    assert asyncio.run(play()) == "caller"


def test_an_idle_thread_keeps_nothing_of_its_work_alive(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentgym.engine.threads.IDLE_S", 3600)

    class Held:
        """Stands for an environment."""

    async def play() -> weakref.ref[Held]:
        held = Held()
        await threads.run(lambda: id(held))
        return weakref.ref(held)

    threads = Threads("t")
    first = asyncio.run(play())
    assert eventually(lambda: first() is None, 10)


STUCK = """
import asyncio, time
from agentgym.engine.threads import blocking

async def main():
    with_limit = asyncio.wait_for(blocking.run(lambda: time.sleep(3600)), 0.1)
    try:
        await with_limit
    except TimeoutError:
        print("gave up")

asyncio.run(main())
"""


def test_stuck_work_does_not_keep_the_process():
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("gave up\n", "", 0)
