"""End commands on Ctrl-C and SIGTERM: soon and with cleanup; immediately on a second Ctrl-C.

Both raise `KeyboardInterrupt` in the main thread, or cancel the main task under `asyncio.run`. A thread watches for
signals too, since Python's handlers wait for the main thread, which may spend minutes in one library call.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn, cast

_FATAL = 128
"""Exit status of a process ended by a signal, minus the number of the signal."""

_AGAIN_S = 0.3
"""A second SIGINT within this many seconds is the same Ctrl-C: some launchers forward the terminal's signal."""

_HINT_S = 2.0
"""Seconds after Ctrl-C until a command that has not ended prints how to end it immediately."""

_WAKE_S = 0.1
"""Seconds between wake-ups of the main thread while a command ends."""

_CAN_WAKE = hasattr(signal, "pthread_kill") and hasattr(signal, "SIGURG")

_ended_by = signal.SIGINT
_is_released = threading.Event()
"""Set when only the exit remains."""


def exit_status() -> int:
    """Return the exit status of a command that was interrupted: 130 for Ctrl-C, 143 for SIGTERM."""
    return _FATAL + _ended_by


@contextmanager
def interruptible() -> Iterator[None]:
    """Let signals end the command that runs in this context. Use it in the main thread, once per process."""
    before = signal.getsignal(signal.SIGTERM)
    if before is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    if _CAN_WAKE and signal.getsignal(signal.SIGURG) is signal.SIG_DFL:
        signal.signal(signal.SIGURG, lambda *_: None)  # an ignored signal wakes no thread
    _watch_signals()
    try:
        yield
    except KeyboardInterrupt:
        end_process(exit_status())
    except SystemExit as ending:
        if ending.code == exit_status():
            end_process(exit_status())
        raise


def end_process(status: int = 0) -> NoReturn:
    """Exit: run the exit handlers, but wait for nothing else.

    A normal exit would join library threads, which may sleep or run a model for a long time, and spend seconds on
    tearing down the modules of large libraries.
    """
    _is_released.set()
    with suppress(BaseException):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # the reader may be gone
            stream.flush()
    os._exit(status)


def _terminate(number: int, frame: FrameType | None) -> None:
    """Call the current handler of Ctrl-C, but only for the first of several SIGTERMs."""
    global _ended_by
    if _ended_by == number:
        return
    _ended_by = signal.SIGTERM
    handler: Any = signal.getsignal(signal.SIGINT)
    end: Callable[[int, FrameType | None], Any] = handler if callable(handler) else signal.default_int_handler
    end(signal.SIGINT, frame)


def _watch_signals() -> None:
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_stop_watching)
    threading.Thread(target=_watch, args=(reader, writer), name="agentgym-signals", daemon=True).start()


def _stop_watching() -> None:
    """Stop watching in a forked process: its signals must not reach the parent."""
    with suppress(ValueError):
        signal.set_wakeup_fd(-1)


def _watch(reader: socket.socket, _writer: socket.socket) -> None:
    """Record the first Ctrl-C, and end the process on the second one."""
    pressed: float | None = None
    wakes_until: float | None = None
    while True:
        if not select.select([reader], [], [], None if wakes_until is None else _WAKE_S)[0]:
            _wake_main_thread()
            if wakes_until is not None and time.monotonic() > wakes_until:
                wakes_until = None
                if pressed is not None and not _is_released.is_set():
                    _print("Ending; press Ctrl-C again to end immediately.")
            continue
        numbers, now = reader.recv(64), time.monotonic()
        if signal.SIGINT in numbers:
            if pressed is not None and now - pressed > _AGAIN_S:
                os._exit(_FATAL + signal.SIGINT)
            pressed = pressed or now
        if wakes_until is None and (signal.SIGINT in numbers or signal.SIGTERM in numbers):
            wakes_until = now + _HINT_S


def _wake_main_thread() -> None:
    """Interrupt a blocking call of the main thread, e.g. `input` if the signal came just before it blocked."""
    if _CAN_WAKE:
        signal.pthread_kill(cast(int, threading.main_thread().ident), signal.SIGURG)


def _print(text: str) -> None:
    with suppress(Exception):  # the reader may be gone
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
