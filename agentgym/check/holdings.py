"""Count the resources a process holds: threads, temporary files, open files, child processes. Depends on no check."""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import sys
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from agentgym.core.foreign import describe


def resources() -> dict[str, int]:
    """Return how many resources of each kind this process holds, where the system exposes the number."""
    counts = {"threads": threading.active_count(), "temporary files": len(list(Path(tempfile.gettempdir()).iterdir()))}
    own = Path("/proc/self")
    if (own / "fd").is_dir():
        counts["open files"] = len(os.listdir(own / "fd"))
    tasks = own / "task"
    if tasks.is_dir():
        counts["child processes"] = sum(len(_read(task / "children").split()) for task in tasks.iterdir())
    return counts


def grown(before: Mapping[str, int], after: Mapping[str, int], least: int) -> dict[str, int]:
    """Return the growth of each resource whose count grew by `least` or more."""
    growth = {name: after[name] - count for name, count in before.items()}
    return {name: more for name, more in growth.items() if more >= least}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


ENDING_S = 8.0
"""Seconds that a copy may take to exit after it has answered."""


class ForkFailed(Exception):
    """The copy failed or did not answer in time."""


def can_fork() -> bool:
    """Return whether this system has `os.fork`."""
    return hasattr(os, "fork")


def in_fork(work: Callable[[], Any], patience_s: float) -> Any:
    """Run `work` in a copy of this process and return its result; its side effects stay in the copy.

    Call this only while the process has a single thread. The copy runs the exit handlers that `work` registered.

    Raises:
        ForkFailed: `work` raised an exception, or took more than `patience_s` seconds.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    was_frozen = gc.get_freeze_count() > 0
    gc.freeze()  # otherwise garbage collection in a copy copies all memory
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python also warns about threads of native libraries
        pid = os.fork()
    if pid == 0:
        os.close(reader)
        _answer_and_exit(writer, work)
    if not was_frozen:
        gc.unfreeze()  # what stays frozen is never collected, and some libraries complain of that at the end
    os.close(writer)
    try:
        answer = json.loads(_forks_read(reader, patience_s) or '{"failed": "it ended without an answer"}')
    except ForkFailed:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.close(reader)
        _reap(pid)
    if "failed" in answer:
        raise ForkFailed(answer["failed"])
    return answer["value"]


def _answer_and_exit(writer: int, work: Callable[[], Any]) -> NoReturn:
    """Answer, run the exit handlers, and skip the rest of the interpreter's shutdown, which is slow in a copy."""
    _forget_exit_handlers()
    try:
        text = json.dumps({"value": work()})
    except BaseException as error:
        text = json.dumps({"failed": describe(error)})
    with suppress(OSError), os.fdopen(writer, "w", encoding="utf-8") as pipe:
        pipe.write(text + "\n")
    with suppress(BaseException):  # other people's exit handlers; the answer has been sent
        atexit._run_exitfuncs()
    os._exit(0)


def _forget_exit_handlers() -> None:
    """Leave to the original process what it owned before the fork: temporary folders and child processes."""
    atexit._clear()
    finalizers: Any = weakref.finalize
    for finalizer in tuple(finalizers._registry):
        finalizer.atexit = False
    atexit.register(finalizers._exitfunc)
    if (util := sys.modules.get("multiprocessing.util")) is not None:
        util._finalizer_registry.clear()
        atexit.register(util._exit_function)


def _forks_read(reader: int, patience_s: float) -> str:
    """Read a line, or to the end of the pipe. Raises `ForkFailed` on timeout."""
    until = time.monotonic() + patience_s
    chunks: list[bytes] = []
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise ForkFailed(f"no answer came within {patience_s:.0f} s")
        chunk = os.read(reader, 1 << 16)
        chunks.append(chunk)
        if not chunk or chunk.endswith(b"\n"):
            return b"".join(chunks).decode()


def _reap(pid: int) -> None:
    """Wait for a copy to exit, and kill it if it does not."""
    until = time.monotonic() + ENDING_S
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return
        time.sleep(0.002)
