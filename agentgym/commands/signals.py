"""How commands end on Ctrl-C and SIGTERM: soon, with what they hold released; at once on a second Ctrl-C.

Both raise `KeyboardInterrupt` in the main thread, or cancel the main task under `asyncio.run`. A thread notes signals
too, since Python's handlers wait for the main thread, which may spend minutes in one call of a library.
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
"""A shell reports the end by a signal as this number plus that of the signal."""

_AGAIN_S = 0.3
"""A second SIGINT within this many seconds is the same Ctrl-C: some launchers pass on what a terminal sends to all."""

_TELL_S = 2.0
"""Seconds after which a command that still ends says how to end it at once."""

_WAKE_S = 0.1
"""Seconds between the times at which a command that ends is woken."""

_CAN_WAKE = hasattr(signal, "pthread_kill") and hasattr(signal, "SIGURG")

_ended_by = signal.SIGINT
_is_released = threading.Event()
"""Set once nothing is left but to exit."""


def exit_status() -> int:
    """Return the exit status of a command that was interrupted: 130 for Ctrl-C, 143 for SIGTERM."""
    return _FATAL + _ended_by


@contextmanager
def interruptible() -> Iterator[None]:
    """Let signals end the command that runs inside. Only in the main thread, for the life of the process."""
    before = signal.getsignal(signal.SIGTERM)
    if before is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    if _CAN_WAKE and signal.getsignal(signal.SIGURG) is signal.SIG_DFL:
        signal.signal(signal.SIGURG, lambda *_: None)  # ignored signals would wake nothing
    _watch_signals()
    try:
        yield
    except KeyboardInterrupt:
        end_process(exit_status())
    except SystemExit as left:
        if left.code == exit_status():
            end_process(exit_status())
        raise


def end_process(status: int = 0) -> NoReturn:
    """Exit: run the exit handlers, but wait for nothing else.

    A normal exit would join library threads, some of which sleep for a long time or are within a pass of a model, and
    take the modules of large libraries apart, which takes seconds.
    """
    _is_released.set()
    with suppress(BaseException):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # whoever reads it may be gone
            stream.flush()
    os._exit(status)


def _terminate(number: int, frame: FrameType | None) -> None:
    """End as for Ctrl-C, wherever that leads now. Supervisors may send the signal several times."""
    global _ended_by
    if _ended_by == number:
        return
    _ended_by = signal.SIGTERM
    handler: Any = signal.getsignal(signal.SIGINT)
    end: Callable[[int, FrameType | None], Any] = handler if callable(handler) else signal.default_int_handler
    end(signal.SIGINT, frame)


def _watch_signals() -> None:
    heard, told = socket.socketpair()
    told.setblocking(False)
    signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_watch_no_more)
    threading.Thread(target=_watch, args=(heard, told), name="agentgym-signals", daemon=True).start()


def _watch_no_more() -> None:
    """What a forked process is sent is no Ctrl-C for its parent."""
    with suppress(ValueError):
        signal.set_wakeup_fd(-1)


def _watch(heard: socket.socket, _told: socket.socket) -> None:
    """Note Ctrl-C, and end the process on the second one."""
    pressed: float | None = None
    wakes_until: float | None = None
    while True:
        if not select.select([heard], [], [], None if wakes_until is None else _WAKE_S)[0]:
            _wake_main_thread()
            if wakes_until is not None and time.monotonic() > wakes_until:
                wakes_until = None
                if pressed is not None and not _is_released.is_set():
                    _tell("Ending; Ctrl-C again ends at once.")
            continue
        numbers, now = heard.recv(64), time.monotonic()
        if signal.SIGINT in numbers:
            if pressed is not None and now - pressed > _AGAIN_S:
                os._exit(_FATAL + signal.SIGINT)
            pressed = pressed or now
        if wakes_until is None and (signal.SIGINT in numbers or signal.SIGTERM in numbers):
            wakes_until = now + _TELL_S


def _wake_main_thread() -> None:
    """Interrupt what the main thread waits for: a signal that comes just before `input` waits is not seen by it."""
    if _CAN_WAKE:
        signal.pthread_kill(cast(int, threading.main_thread().ident), signal.SIGURG)


def _tell(text: str) -> None:
    with suppress(Exception):  # whoever reads it may be gone
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
