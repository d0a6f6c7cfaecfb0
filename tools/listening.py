"""What all our HTTP servers have in common: a socket to listen on, and serving until a signal comes."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import uvicorn

from agentgym.errors import UsageError

if TYPE_CHECKING:
    from fastapi import FastAPI


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


def run_server(app: FastAPI, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; then end what the application holds."""
    config = uvicorn.Config(
        app, log_level="warning", timeout_graceful_shutdown=2, timeout_keep_alive=60, server_header=False
    )
    _Server(config).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Ends by itself on a signal. The one it comes from lets the signal kill the process once the server has ended."""

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
