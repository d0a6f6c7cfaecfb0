from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading

import pytest

from agentgym.engine.background import BackgroundLoop
from agentgym.errors import UsageError

TESTING = BackgroundLoop("testing")


async def where() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    return asyncio.get_running_loop(), threading.current_thread()


def test_all_work_runs_on_one_loop_in_one_thread_of_its_own():
    found = [TESTING.wait(where()) for _ in range(3)]
    loop, thread = found[0]
    assert found == [(loop, thread)] * 3
    assert (loop, thread.name, thread.daemon) == (TESTING.loop, "testing", True)
    assert thread is not threading.current_thread()


def test_no_thread_is_started_before_it_is_needed():
    BackgroundLoop("needless")
    assert "needless" not in {thread.name for thread in threading.enumerate()}


def test_many_threads_share_the_loop_whoever_comes_first():
    shared = BackgroundLoop("shared")
    found: list[asyncio.AbstractEventLoop] = []
    threads = [threading.Thread(target=lambda: found.append(shared.loop)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [shared.loop] * 16


def test_a_loop_is_prepared_before_anything_runs_on_it():
    prepared: list[bool] = []
    loop = BackgroundLoop("prepared", lambda loop: prepared.append(loop.is_running()))
    loop.wait(where())
    loop.wait(where())
    assert prepared == [False]


def test_what_the_work_raises_comes_through():
    async def fail() -> None:
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        TESTING.wait(fail())


def test_work_that_is_given_up_is_cancelled():
    begun, ended = threading.Event(), threading.Event()

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    pending = TESTING.submit(wait())
    assert begun.wait(20)
    pending.cancel()
    assert ended.wait(20)


def test_a_call_that_would_wait_for_itself_is_refused():
    async def inside() -> None:
        TESTING.wait(where())

    with pytest.raises(UsageError, match="own thread of testing; await it instead"):
        TESTING.wait(inside())


FORKS = """
import asyncio, os, signal, sys, threading
from agentgym.engine.background import BackgroundLoop

async def thread():
    return threading.current_thread()

background = BackgroundLoop("forked")
parents = background.wait(thread())
held, go_on = threading.Event(), threading.Event()

def hold():
    with background._lock:
        held.set()
        go_on.wait()

threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(30)
    assert background.wait(thread()) is not parents
    assert background.wait(thread()) is background.wait(thread())
    print("the child is fine", flush=True)
    os._exit(0)
go_on.set()
assert os.waitpid(child, 0)[1] == 0
assert background.wait(thread()) is parents
print("the parent is fine")
"""


def test_a_forked_child_has_a_loop_of_its_own_even_if_its_parent_held_the_lock():
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-W", "default::ResourceWarning", "-c", FORKS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ})
    assert (done.stdout, done.stderr) == ("the child is fine\nthe parent is fine\n", "")
