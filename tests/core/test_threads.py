"""Threads for blocking work, background event loops, and thread-safe parsing."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from agentgym.base.errors import UsageError
from agentgym.base.syntax import parse
from agentgym.core.engine.drive import BackgroundLoop
from agentgym.core.engine.threads import Threads
from tests.waiting import HANG_S, eventually

# Threads for blocking work.


def test_all_work_runs_at_once_and_threads_are_reused():
    async def at_once() -> list[int]:
        threads, barrier = Threads("t"), threading.Barrier(100)
        return await asyncio.gather(*(threads.run(lambda: barrier.wait(HANG_S)) for _ in range(100)))

    async def in_turn() -> set[int]:
        threads = Threads("t")
        return {await threads.run(threading.get_ident) for _ in range(50)}

    assert sorted(asyncio.run(at_once())) == list(range(100))
    assert len(asyncio.run(in_turn())) == 1


@pytest.mark.parametrize("error", [OSError, SystemExit, KeyboardInterrupt])
def test_any_error_reaches_the_caller(error: type[BaseException]):
    def work() -> None:
        raise error("no")

    async def play() -> bool:
        try:
            await Threads("t").run(work)
        except error:
            return True
        return False

    assert asyncio.run(play())
    result = asyncio.run(Threads("t").run(lambda: ValueError("just data")))
    assert isinstance(result, ValueError), "a returned exception is a result"


def test_work_inherits_the_context_of_its_caller():
    name: ContextVar[str] = ContextVar("name")

    async def play() -> str:
        name.set("caller")
        return await Threads("t").run(name.get)

    assert asyncio.run(play()) == "caller"


def test_an_idle_thread_does_not_keep_its_work_alive(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentgym.core.engine.threads.IDLE_S", 3600)

    class Held:
        """Stands for an environment."""

    async def play() -> weakref.ref[Held]:
        held = Held()
        await threads.run(lambda: id(held))
        return weakref.ref(held)

    threads = Threads("t")
    first = asyncio.run(play())
    assert eventually(lambda: first() is None)


STUCK = """
import asyncio, time
from agentgym.core.engine.threads import blocking

async def main():
    with_limit = asyncio.wait_for(blocking.run(lambda: time.sleep(3600)), 0.1)
    try:
        await with_limit
    except TimeoutError:
        print("gave up")

asyncio.run(main())
"""


@pytest.mark.real
def test_stuck_work_does_not_keep_the_process_alive():
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=HANG_S)
    assert (done.stdout, done.stderr, done.returncode) == ("gave up\n", "", 0)


# Background loops.

TESTING = BackgroundLoop("testing")


async def where() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    return asyncio.get_running_loop(), threading.current_thread()


def test_a_background_loop_has_a_thread_of_its_own():
    places = [TESTING.wait(where()) for _ in range(3)]
    loop, thread = places[0]
    assert places == [(loop, thread)] * 3
    assert (loop, thread.name, thread.daemon) == (TESTING.loop, "testing", True)
    assert thread is not threading.current_thread()


def test_errors_propagate_and_a_self_deadlock_is_refused():
    async def fail() -> None:
        raise OSError("no disk")

    async def inside() -> None:
        TESTING.wait(where())

    with pytest.raises(OSError, match="no disk"):
        TESTING.wait(fail())
    with pytest.raises(UsageError, match="await it instead"):
        TESTING.wait(inside())


# Parsing.

SOURCE = "\n".join(
    f"def f{n}(a, b=(1, [2, {{3}}])):\n    return [x + {n} for x in a if not (x or b)]" for n in range(150)
)


class SlowGarbage:
    """Takes a while to be collected, so that threads take turns in the middle of making a tree."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        sum(range(200))


@pytest.fixture
def _many_turns() -> Iterator[None]:
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(5)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("_many_turns")
def test_threads_can_parse_concurrently():
    def work(_: int) -> str:
        SlowGarbage()
        return type(parse(SOURCE)).__name__

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(work, range(80))) == {"Module"}
