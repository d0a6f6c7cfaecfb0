"""This process's connection to Ray: the user's own, or one that is open while rollouts use it."""

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

from agentgym.base.errors import UsageError
from agentgym.core.foreign import describe

LOCAL = "local"
OBJECT_STORE_BYTES = 100 * 2**20
"""Shared memory of a Ray started here, which needs it only for messages."""

ANSWER_S = 10.0
"""Seconds for a cluster's address to accept a connection."""

_OURS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Makes Ray listen on the loopback device only, instead of on every address of the machine.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}
"""Environment variables for a Ray started here. Ray reads the second when it is imported."""

_TOUCHED = (*_OURS, "PYTHONBREAKPOINT")
"""Environment variables to restore afterwards. Ray sets the last for the whole process."""

_lock = threading.Lock()
_users = 0
"""Users of the connection made here; 0 also if the connection is the user's own."""
_files: TemporaryDirectory[str] | None = None
"""Logs and sockets of a Ray started here."""


def join(address: str | None) -> bool:
    """Connect to Ray unless this process is connected already.

    Args:
        address: `HOST:PORT` of a cluster, or `auto` for the one that this machine is a node of. By default
            `RAY_ADDRESS`, else a new Ray on this machine alone.

    Returns:
        Whether the caller must call `leave`.

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
    """Disconnect after the last user in this process. A Ray started here ends."""
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
            f"this machine is not a node of a Ray cluster at {address!r} ({why}); on its first machine run: "
            "ray start --head; on the others: ray start --address HOST:PORT"
        ) from error


def _knock(address: str) -> None:
    """Raise `OSError` if nobody listens at `HOST:PORT`. Ray itself tries for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S).close()


def _local() -> dict[str, Any]:
    """Return the arguments for starting a Ray here."""
    global _files
    # Ray puts sockets below it, so the path must be short.
    _files = TemporaryDirectory(prefix="ray-", dir="/tmp" if os.path.isdir("/tmp") else None)
    return {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES, "_temp_dir": _files.name}


def _disconnect(ray: Any) -> None:
    global _files
    ray.shutdown()
    _announces(ray, True)
    if _files is not None:
        shutil.rmtree(_files.name, ignore_errors=True)  # processes that are ending may still write logs
        _files.cleanup()
        _files = None


def _announces(ray: Any, does: bool) -> None:
    """Set whether Ray prints the state of its processes, which would mix with a command's own output.

    Ray lacks a public setting for it; its debugger does the same.
    """
    ray._private.worker._worker_logs_enabled = does


@contextmanager
def _same_handlers() -> Iterator[None]:
    """Keep Ray from changing signal handlers and from logging."""
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
    """Set environment variables that the user has not set; restore them afterwards."""
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
