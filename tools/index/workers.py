"""The processes that serve an index: one, or several that share a socket and the memory-mapped files."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType

from agentgym.errors import InfrastructureError
from agentgym.tools.index.asking import IndexServing
from agentgym.tools.index.serve import make_app
from agentgym.tools.index.store import open_index
from agentgym.tools.serving.running import run_server

_END_S = 1.8
"""Seconds for a process to exit after a signal before it is killed."""
_SIGNAL_S = 1.0


def serve_index(folder: Path, serving: IndexServing, listening: socket.socket, workers: int = 1) -> None:
    """Serve until SIGINT or SIGTERM; requests in progress get a moment to finish.

    Raises:
        InfrastructureError: A worker process died; the others are stopped too.
    """
    if workers == 1:
        _serve(folder, serving, listening)
        return
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_work, args=(folder, serving, listening), name=f"agentgym-index-{number}")
        for number in range(workers)
    ]
    with _signalled() as ending:
        try:
            for process in processes:
                process.start()
            wait([ending, *(process.sentinel for process in processes)])
            # Ctrl-C reaches all processes of a terminal, and the others may exit first.
            asked_to_end = bool(wait([ending], _SIGNAL_S))
            dead = [process.exitcode for process in processes if not process.is_alive()]
        finally:
            _end([process for process in processes if process.pid is not None])
    if dead and not asked_to_end:
        raise InfrastructureError(f"{len(dead)} of {workers} processes died, with exit codes {dead!r}")


def _serve(folder: Path, serving: IndexServing, listening: socket.socket) -> None:
    index = open_index(folder)
    try:
        run_server(make_app(index, serving), listening, body_bytes=serving.body_bytes)
    finally:
        index.close()


def _work(folder: Path, serving: IndexServing, listening: socket.socket) -> None:
    """Serve as one of several processes, and exit with the parent."""
    threading.Thread(target=_end_with_parent, name="agentgym-index-parent", daemon=True).start()
    _serve(folder, serving, listening)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _signalled() -> Iterator[socket.socket]:
    """Yield a socket that becomes readable on SIGINT or SIGTERM."""
    reading, writing = socket.socketpair()

    def note(_number: int, _frame: FrameType | None) -> None:
        writing.send(b"!")

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield reading
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        reading.close()
        writing.close()


def _end(processes: list[SpawnProcess]) -> None:
    ends = time.monotonic() + _END_S
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(max(0.0, ends - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()
