"""Threads that serve many connections: nobody waits for another's long request, and no request is served twice."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agentgym.tools.serving import leaders as module
from agentgym.tools.serving.leaders import Leaders
from agentgym.tools.serving.one_each import OneEach

PATIENCE_S = 20.0
Pool = Leaders | OneEach


class Counting:
    """A connection whose requests are single bytes, each answered by itself after some work."""

    def __init__(self, work: Callable[[bytes], None]):
        self.client, self._socket = socket.socketpair()
        self.client.settimeout(PATIENCE_S)
        self._work = work
        self._in_use = threading.Lock()
        self.served = 0
        self.has_ended = threading.Event()

    def fileno(self) -> int:
        return self._socket.fileno()

    def serve(self) -> bool:
        assert self._in_use.acquire(blocking=False), "two threads serve one connection"
        try:
            request = self._socket.recv(1)
            if not request:
                return False
            self._work(request)
            self.served += 1
            self._socket.sendall(request)
            return True
        except OSError:
            return False
        finally:
            self._in_use.release()

    def end(self) -> None:
        self._socket.close()
        self.has_ended.set()

    def ask(self, request: bytes = b"x") -> None:
        self.client.sendall(request)
        assert self.client.recv(1) == request


@pytest.fixture(params=[Leaders, OneEach])
def pool(request: pytest.FixtureRequest) -> Pool:
    return request.param()


@pytest.fixture
def connect(pool: Pool) -> Iterator[Callable[..., Counting]]:
    with ExitStack() as stack:

        def connected(work: Callable[[bytes], None] = lambda request: None) -> Counting:
            made = Counting(work)
            stack.callback(made.has_ended.wait, PATIENCE_S)
            stack.callback(made.client.close)
            pool.add(made)
            return made

        yield connected


def test_every_request_of_every_connection_is_answered(connect):
    connections = [connect() for _ in range(20)]
    for _ in range(50):
        for connection in connections:
            connection.client.sendall(b"x")
        for connection in connections:
            assert connection.client.recv(1) == b"x"
    assert [connection.served for connection in connections] == [50] * 20


def test_long_requests_hold_up_nobody(connect):
    go_on = threading.Event()
    stuck = [connect(lambda request: go_on.wait(PATIENCE_S)) for _ in range(5)]
    for connection in stuck:
        connection.client.sendall(b"x")
    quick = connect()
    for _ in range(10):
        quick.ask()
    assert [connection.served for connection in stuck] == [0] * 5
    go_on.set()
    for connection in stuck:
        assert connection.client.recv(1) == b"x"


def test_a_connection_is_served_by_one_thread_at_a_time(connect):
    go_on = threading.Event()
    slow = connect(lambda request: go_on.wait(PATIENCE_S) and None)
    slow.client.sendall(b"abc")
    connect().ask()  # somebody leads, and sees that more has come on the other connection
    assert slow.served == 0
    go_on.set()
    assert [slow.client.recv(1) for _ in range(3)] == [b"a", b"b", b"c"]


def test_who_steps_aside_is_not_waited_for(pool, connect):
    go_on = threading.Event()

    def wait(request: bytes) -> None:
        pool.step_aside()
        pool.step_aside()
        go_on.wait(PATIENCE_S)

    waiting = connect(wait)
    waiting.client.sendall(b"x")
    connect().ask()
    go_on.set()
    assert waiting.client.recv(1) == b"x"
    waiting.ask()


def test_a_client_that_leaves_during_its_long_request_is_forgotten(connect):
    go_on = threading.Event()
    leaving = connect(lambda request: go_on.wait(PATIENCE_S) and None)
    leaving.client.sendall(b"x")
    other = connect()
    other.ask()
    leaving.client.close()
    other.ask()
    assert not leaving.has_ended.is_set()
    go_on.set()
    assert leaving.has_ended.wait(PATIENCE_S)
    other.ask()


def test_connections_that_come_and_go_while_others_are_busy_are_all_served(connect):
    busy = [connect(lambda request: time.sleep(0.01)) for _ in range(4)]
    stop = threading.Event()

    def keep_asking(connection: Counting) -> None:
        while not stop.is_set():
            connection.ask()

    askers = [threading.Thread(target=keep_asking, args=(connection,)) for connection in busy]
    for asker in askers:
        asker.start()
    for _ in range(60):  # their descriptors are used again and again
        passing = connect()
        passing.ask()
        passing.client.close()
        assert passing.has_ended.wait(PATIENCE_S)
    stop.set()
    for asker in askers:
        asker.join()
    assert all(connection.served for connection in busy)


def test_threads_end_when_nobody_needs_them_and_start_again(monkeypatch):
    monkeypatch.setattr(module, "_IDLE_S", 0.1)
    before = threading.active_count()
    pool = Leaders()
    for _ in range(3):
        connections = [Counting(lambda request: time.sleep(0.02)) for _ in range(5)]
        for connection in connections:
            pool.add(connection)
            connection.client.sendall(b"x")
        for connection in connections:
            assert connection.client.recv(1) == b"x"
            connection.client.close()
        until = time.monotonic() + PATIENCE_S
        while threading.active_count() > before:
            assert time.monotonic() < until, threading.enumerate()
            time.sleep(0.05)


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="needs epoll")
def test_a_connection_that_cannot_be_waited_for_is_refused_and_forgotten(tmp_path: Path):
    """Otherwise the threads would never end: there would always be a connection."""

    class Unwaitable(Counting):
        def fileno(self) -> int:
            return file.fileno()

    pool = Leaders()
    with (tmp_path / "file").open("wb") as file:
        connection = Unwaitable(lambda _: None)
        with pytest.raises(OSError):  # noqa: PT011
            pool.add(connection)
    assert not pool._connections
    sound = Counting(lambda _: None)
    pool.add(sound)
    sound.ask()
    for one in (connection, sound):
        one.client.close()
    connection.end()
    assert sound.has_ended.wait(PATIENCE_S)
