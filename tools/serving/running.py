"""Runs an application under uvicorn: a listening socket, limits, and the end on a signal."""

from __future__ import annotations

import ctypes
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

import uvicorn
from starlette.types import ASGIApp

from agentgym.errors import UsageError
from agentgym.terminal.signals import end_process
from agentgym.tools.serving.guard import PATIENCE_S, Guard

BODY_BYTES = 1 << 20
"""Default maximum size of a request's body."""
_HELD_BYTES = 128 << 20
_REQUESTS = 2048
"""Requests at a time, besides those of sessions."""
_WAITING = 1024
"""Connections that may keep the server waiting, for a request or for the client to read a response."""
_FILES = 8192
"""Open files, besides those of sessions, so that many connections at once leave room for others."""
_M_MMAP_THRESHOLD = -3
"""The option's number in glibc's `malloc.h`."""
_LARGE_BYTES = 256 << 10


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 picks a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm only if the protocol is set; otherwise a response in parts takes 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}; choose another --host or --port") from None
    listening.listen()
    return listening


def url_of(listening: socket.socket) -> str:
    """Return the URL of a listening socket."""
    name, number = listening.getsockname()[:2]
    return f"http://[{name}]:{number}" if ":" in name else f"http://{name}:{number}"


def make_server(
    app: ASGIApp,
    *,
    body_bytes: int = BODY_BYTES,
    held_bytes: int = _HELD_BYTES,
    sessions: int = 0,
    streams: bool = False,
) -> uvicorn.Server:
    """Return a server of an application.

    Args:
        app: The application.
        body_bytes: Maximum size of a request's body, and of a message of a WebSocket.
        held_bytes: Maximum size of all unfinished bodies together.
        sessions: Sessions of the application; each has its own connection, for a while two.
        streams: Whether clients can open WebSockets.
    """
    files = _raised_file_limit(_FILES + 2 * sessions)
    guard = Guard(app, _REQUESTS + 2 * sessions, min(_WAITING, files // 4), body_bytes, held_bytes)
    config = uvicorn.Config(
        guard,
        loop="asyncio",
        http="h11",
        ws="websockets-sansio" if streams else "none",
        ws_max_size=body_bytes,
        ws_per_message_deflate=False,
        log_config=None,
        log_level="error",  # malformed requests are their clients' problem, and could fill a disk with warnings
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=PATIENCE_S,
        timeout_graceful_shutdown=1,
        callback_notify=guard.drop_overdue,
        timeout_notify=0,  # once a second, which is as often as uvicorn looks
    )
    server = uvicorn.Server(config)
    guard.connections = server.server_state.connections
    return server


def run_server(app: ASGIApp, listening: socket.socket, **limits: Any) -> None:
    """Serve until SIGINT or SIGTERM; requests in progress get a moment to finish. See `make_server` for the limits."""
    _return_large_blocks()
    with suppress(KeyboardInterrupt):  # uvicorn raises the signal again once it has ended
        make_server(app, **limits).run(sockets=[listening])


def serve_locally(
    app: ASGIApp,
    port: int,
    announce: Callable[[str], object],
    *,
    body_bytes: int = BODY_BYTES,
    at_end: Callable[[], object] = lambda: None,
) -> NoReturn:
    """Serve on the loopback address until SIGINT or SIGTERM, then end the process.

    Args:
        app: The application.
        port: 0 picks a free port.
        announce: Called with the URL once connections are accepted.
        body_bytes: Maximum size of a request's body.
        at_end: Called after the server has stopped.

    Raises:
        UsageError: The port is taken.
    """
    listening = listen("127.0.0.1", port)
    announce(url_of(listening))
    run_server(app, listening, body_bytes=body_bytes)
    at_end()
    end_process()


def _raised_file_limit(target: int) -> int:
    """Raise the limit on open files to `target`, or as far as allowed, and return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= target:
        return target
    raised = target if hard == resource.RLIM_INFINITY else min(target, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return raised


def _return_large_blocks() -> None:
    """Let the C library return large blocks of memory as soon as they are free.

    By default, glibc keeps blocks of a size that was freed once, so a few large messages would cost memory for good.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, _LARGE_BYTES)
