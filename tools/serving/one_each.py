"""`OneEach`: a thread for each connection, where the system has no `epoll` for `Leaders`."""

from __future__ import annotations

import select
import threading

from agentgym.tools.serving.leaders import Served


class OneEach:
    """Serves connections as `Leaders` does."""

    def add(self, connection: Served) -> None:
        """Serve a connection until it wants no more. Raises `RuntimeError` if the machine has no more threads."""
        threading.Thread(target=_serve, args=(connection,), name="agentgym-stream", daemon=True).start()

    def step_aside(self) -> None:
        """Do nothing: every connection has a thread of its own."""


def _serve(connection: Served) -> None:
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    while waiting.poll() and connection.serve():
        pass
    connection.end()
