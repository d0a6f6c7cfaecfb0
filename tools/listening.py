"""What all our HTTP servers have in common: a socket to listen on, and serving until a signal comes."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import uvicorn

from agentgym.errors import UsageError
from agentgym.tools.serving.connection import GuardedConnection, guarded
from agentgym.tools.serving.patience import Patience

if TYPE_CHECKING:
    from starlette.applications import Starlette

_GRACE_S = 0.7
"""Seconds that requests under way have to end, after a signal."""
_END_S = 1.6
"""Seconds after a signal when the process ends, even if a thread of it is still at work."""
_KILL_S = 1.9
"""Seconds after a signal when the system kills the process, if it could not even end itself."""
_OTHER_FILES = 256
"""Files that a server has open besides connections, with room to spare."""


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes one that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where the protocol is named; with it on, an answer in parts takes 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}; choose another --host or --port") from None
    listening.listen(1024)
    return listening


def url_of(listening: socket.socket) -> str:
    """Return the address of a listening socket."""
    name, number = listening.getsockname()[:2]
    return f"http://[{name}]:{number}" if ":" in name else f"http://{name}:{number}"


def run_server(app: Starlette, listening: socket.socket, patience: Patience | None = None) -> None:
    """Serve until SIGINT or SIGTERM; then end what the application holds.

    Requests under way get a moment to end. Two seconds after the signal the process is gone, whatever its threads do.
    The application's `state.stop`, if it has one, is called first of all, in the event loop's thread.
    """
    patience = _affordable(patience or Patience())
    # Threads that compute give way to the event loop, and so to all other clients, ten times as often as by default.
    sys.setswitchinterval(0.0005)
    config = uvicorn.Config(
        app,
        http=guarded(patience),
        ws="none",
        loop="asyncio",
        log_level="error",  # malformed requests are their clients' problem, and could fill a disk with warnings
        access_log=False,
        timeout_graceful_shutdown=2,
        timeout_keep_alive=patience.idle_s,
        server_header=False,
    )
    _Server(config, getattr(app.state, "stop", None)).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Ends by itself on a signal. The one it comes from lets the signal kill the process once the server has ended."""

    def __init__(self, config: uvicorn.Config, stop: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._stop = stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End; a further signal changes nothing, as the end comes in any case."""
        if not self.should_exit:
            threading.Thread(target=_end_soon, name="agentgym-end", daemon=True).start()
            # That thread may not get to run where many others compete for the processor. The system needs no turn.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, _KILL_S)
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let requests end, then drop what is left."""
        if self._stop is not None:
            self._stop()
        asyncio.get_running_loop().call_later(_GRACE_S, self._drop_all)
        await super().shutdown(sockets)

    def _drop_all(self) -> None:
        for connection in list(self.server_state.connections):
            assert isinstance(connection, GuardedConnection)
            connection.drop()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def end_process() -> NoReturn:
    """End a process that has served: what is registered for its exit is done, but nothing else is waited for.

    The interpreter's own way would take threads apart that libraries have, some of which sleep for long.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _end_soon() -> None:
    time.sleep(_END_S)
    os._exit(0)


def _affordable(patience: Patience) -> Patience:
    """Have no more connections than there can be files, of which everything else needs some too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = patience.connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return patience
    return replace(patience, connections=max(1, soft - _OTHER_FILES))
