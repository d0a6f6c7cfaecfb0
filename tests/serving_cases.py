"""Servers and clients for the tests of serving: real ones on this machine, and raw connections to them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from agentgym.tools.serving.running import listen, make_server
from tests.waiting import HANG_S


class Running:
    """An application served in a thread like the project's own servers."""

    def __init__(self, app: Any, **limits: Any) -> None:
        self._listening = listen("127.0.0.1", 0)
        self._server = make_server(app, **limits)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listening]})
        self._thread.start()
        self.port: int = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, trust_env=False, timeout=HANG_S)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._server.server_state.connections)

    def stop(self) -> None:
        self.client.close()
        self._server.should_exit = True
        self._thread.join(HANG_S)
        self._listening.close()


@contextmanager
def running(app: Any, **limits: Any) -> Iterator[Running]:
    server = Running(app, **limits)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def raw(port: int, sent: bytes = b"") -> Iterator[socket.socket]:
    """Connect, and send something."""
    with socket.create_connection(("127.0.0.1", port), timeout=HANG_S) as connection:
        connection.sendall(sent)
        yield connection


def all_of(connection: socket.socket) -> bytes:
    """Return the bytes received until the other side closes the connection."""
    came = b""
    try:
        while piece := connection.recv(1 << 16):
            came += piece
    except ConnectionResetError:
        return came
    return came


def until(condition: Any) -> None:
    """Wait until a condition holds."""
    ends = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < ends, "it did not come to be"
        time.sleep(0.01)
