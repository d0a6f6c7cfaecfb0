"""The parts that all our HTTP servers share: a listening socket, and serving until a signal."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
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
from typing import TYPE_CHECKING, Any

import uvicorn

from agentgym.errors import UsageError
from agentgym.tools.serving.connection import guarded
from agentgym.tools.serving.limits import ConnectionLimits

if TYPE_CHECKING:
    from starlette.applications import Starlette

_GRACE_S = 0.7
"""Seconds after a signal for requests in progress to finish."""
_END_S = 1.6
"""Seconds after a signal until the process exits, even if a thread is still working."""
_KILL_S = 1.9
"""Seconds after a signal until the system kills the process, if it has not exited."""
_M_MMAP_THRESHOLD = -3
"""The option's number in glibc's `malloc.h`."""
_LARGE_BYTES = 256 << 10
_OTHER_FILES = 256
"""Files that a server opens besides connections, with a margin."""


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 picks a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm only if the protocol is given; otherwise an answer in parts takes 40 ms.
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
    """Return the URL of a listening socket."""
    name, number = listening.getsockname()[:2]
    return f"http://[{name}]:{number}" if ":" in name else f"http://{name}:{number}"


def run_server(
    app: Starlette,
    listening: socket.socket,
    limits: ConnectionLimits | None = None,
    streams: Callable[..., asyncio.Protocol] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, then shut the application down.

    With `streams` (`serving.streams.Streams.protocol`), clients can open WebSockets.

    Requests in progress get a moment to finish. The process exits within two seconds, whatever its threads do.
    The application's `state.stop`, if any, is called first, in the event loop's thread.
    """
    limits = _affordable(limits or ConnectionLimits())
    _return_large_blocks()
    # Computing threads yield to the event loop, and so to all other clients, ten times as often as by default.
    sys.setswitchinterval(0.0005)
    config = uvicorn.Config(
        app,
        http=guarded(limits),
        ws=streams or "none",  # type: ignore[arg-type]
        loop="asyncio",
        log_level="error",  # malformed requests are their clients' problem, and could fill a disk with warnings
        access_log=False,
        timeout_graceful_shutdown=2,
        timeout_keep_alive=limits.idle_s,
        server_header=False,
    )
    _Server(config, getattr(app.state, "stop", None)).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Exits normally on a signal; uvicorn's server re-raises the signal, which kills the process."""

    def __init__(self, config: uvicorn.Config, stop: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._stop = stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down; further signals have no effect."""
        if not self.should_exit:
            threading.Thread(target=_end_soon, name="agentgym-end", daemon=True).start()
            # That thread may not get to run while many others compete for the CPU; the alarm needs no thread.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, _KILL_S)
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let requests finish, then drop the remaining ones."""
        if self._stop is not None:
            self._stop()
        asyncio.get_running_loop().call_later(_GRACE_S, self._drop_all)
        await super().shutdown(sockets)

    def _drop_all(self) -> None:
        for connection in list(self.server_state.connections):
            dropped: Any = connection  # a `GuardedConnection` or a `StreamConnection`
            dropped.drop()

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


def _end_soon() -> None:
    time.sleep(_END_S)
    os._exit(0)


def _return_large_blocks() -> None:
    """Let the C library give large blocks of memory back as soon as they are free.

    By default glibc keeps them, once one was freed, for each of the many parts that its threads allocate from: clients
    that send a few large messages would leave a server with hundreds of megabytes.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def _affordable(limits: ConnectionLimits) -> ConnectionLimits:
    """Lower the number of connections to the limit on open files, minus those needed elsewhere."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return limits
    return replace(limits, connections=max(1, soft - _OTHER_FILES))
