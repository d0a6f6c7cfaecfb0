"""This process's connection to Ray: the user's own if there is one, else one that lasts as long as somebody uses it."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from agentgym.errors import UsageError
from agentgym.foreign.errors import describe

LOCAL = "local"
OBJECT_STORE_BYTES = 100 * 2**20
"""Shared memory of a Ray that is started here. Only messages go through it."""

ANSWER_S = 10.0
"""Seconds in which somebody has to answer at the address of a cluster."""

_OURS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray then talks to itself on the loopback device. Otherwise it listens on every address of the machine.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}
"""Environment variables for a Ray that is started here. Ray reads the second when it is imported."""

_TOUCHED = (*_OURS, "PYTHONBREAKPOINT")
"""Environment variables that are as before afterwards. Ray sets the last for the whole process."""

_lock = threading.Lock()
_users = 0
"""How many use the connection that was made here; 0 also if it is the user's own."""
_files: TemporaryDirectory[str] | None = None
"""Logs and sockets of a Ray that was started here."""


def join(address: str | None) -> bool:
    """Connect to Ray unless this process is connected already.

    Args:
        address: `HOST:PORT` of a cluster, or `auto` for the one that this machine is a node of. By default
            `RAY_ADDRESS`, else a new Ray on this machine alone.

    Returns:
        Whether the caller has to `leave`.

    Raises:
        UsageError: There is no such cluster.
    """
    global _users
    address = address or os.environ.get("RAY_ADDRESS") or LOCAL
    with _lock, _same_environment(_OURS if address == LOCAL else {}):
        import ray  # type: ignore[import-not-found]

        if not ray.is_initialized():
            with _same_handlers():
                _connect(ray, address)
        elif not _users:
            return False
        _users += 1
        return True


def leave() -> None:
    """Disconnect, if nobody else in this process uses the connection. A Ray that was started here ends."""
    global _users
    with _lock:
        _users -= 1
        if not _users:
            import ray  # type: ignore[import-not-found]

            _disconnect(ray)


def _connect(ray: Any, address: str) -> None:
    if address.startswith("ray://"):
        raise UsageError(f"Ray's client addresses such as {address!r} do not work here; run on a node of the cluster")
    _announces(ray, False)
    try:
        _knock(address)
        ray.init(address, configure_logging=False, log_to_driver=False, **(_local() if address == LOCAL else {}))
    except BaseException as error:
        _disconnect(ray)
        if address == LOCAL or not isinstance(error, OSError | ValueError | RuntimeError):
            raise
        why = describe(error).splitlines()[0]
        raise UsageError(
            f"there is no Ray cluster at {address!r} that this machine is a node of ({why}); on its first machine run: "
            "ray start --head; on the others: ray start --address HOST:PORT"
        ) from error


def _knock(address: str) -> None:
    """Raise `OSError` if nobody listens at `HOST:PORT`. Ray itself tries for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S).close()


def _local() -> dict[str, Any]:
    """Return what a Ray that is started here is told."""
    global _files
    # Ray has sockets below, whose paths may not be long.
    _files = TemporaryDirectory(prefix="ray-", dir="/tmp" if os.path.isdir("/tmp") else None)
    return {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES, "_temp_dir": _files.name}


def _disconnect(ray: Any) -> None:
    global _files
    ray.shutdown()
    _announces(ray, True)
    if _files is not None:
        shutil.rmtree(_files.name, ignore_errors=True)  # processes that are just ending may still write a line
        _files.cleanup()
        _files = None


def _announces(ray: Any, does: bool) -> None:
    """Say whether Ray prints what becomes of its processes, which would be among a command's own output.

    There is no public setting for it. Ray's debugger does the same.
    """
    ray._private.worker._worker_logs_enabled = does


@contextmanager
def _same_handlers() -> Iterator[None]:
    """Keep Ray from taking over signals, and from telling what nobody asked."""
    logger = logging.getLogger("ray")
    is_main = threading.current_thread() is threading.main_thread()
    handler, level = signal.getsignal(signal.SIGTERM), logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
        if is_main and handler is not None:
            signal.signal(signal.SIGTERM, handler)


@contextmanager
def _same_environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables that the user has not set himself; put back what was there."""
    before = {name: os.environ.get(name) for name in _TOUCHED}
    os.environ.update(variables | {name: value for name, value in before.items() if value is not None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
