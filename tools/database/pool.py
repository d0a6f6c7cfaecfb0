"""Opens databases: all episodes of a process share one database per content and engine."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from agentgym.base.errors import UsageError
from agentgym.tools.database.base import QueryLimits
from agentgym.tools.database.duckdb.engine import DuckDBDatabase, WorkerSlot
from agentgym.tools.database.schema import DatabaseSpec
from agentgym.tools.database.shared import DatabaseHandle, SharedDatabase
from agentgym.tools.database.sqlite.engine import SqliteDatabase

ENGINES = ("duckdb", "sqlite")
DEFAULT_LIMITS = QueryLimits()


@dataclass
class _Entry:
    shared: SharedDatabase | None = None
    users: int = 0
    opening: threading.Lock = field(default_factory=threading.Lock)


class DatabasePool:
    """Opens databases, shares them between handles, and keeps some open for later episodes.

    Args:
        duckdb_workers: Worker processes for DuckDB; each serves all databases, one statement at a time.
        idle: Unused databases kept open.
    """

    def __init__(self, duckdb_workers: int = 1, idle: int = 128):
        if duckdb_workers < 1 or idle < 0:
            raise UsageError(f"duckdb_workers={duckdb_workers!r} must be at least 1, and idle={idle!r} at least 0")
        self._slots = tuple(WorkerSlot() for _ in range(duckdb_workers))
        self._max_idle = idle
        self._lock = threading.RLock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._closed = False
        _pools.add(self)

    def open(self, spec: DatabaseSpec, engine: str = "duckdb", limits: QueryLimits = DEFAULT_LIMITS) -> DatabaseHandle:
        """Return a handle to a database with the content of `spec`; equal specs share one database."""
        if engine == "sqlite":
            return self._handle(f"sqlite-{spec.hash}", limits, lambda _: SqliteDatabase(spec))
        _check_engine(engine)
        key = f"{spec.hash}-{limits.memory_mb}"
        return self._handle(
            key, limits, lambda key: DuckDBDatabase(key, spec, limits.memory_mb, self._slots, int(spec.hash[:8], 16))
        )

    def open_file(self, path: str | Path, engine: str, limits: QueryLimits = DEFAULT_LIMITS) -> DatabaseHandle:
        """Return a handle to an existing database file, read-only. The file must not change while it is open."""
        _check_engine(engine)
        path = Path(path).resolve()
        if not path.is_file():
            raise UsageError(f"no database file {str(path)!r}")
        stat = path.stat()
        identity = f"{path}|{stat.st_mtime_ns}|{stat.st_size}|{limits.memory_mb}|{engine}"
        key = "file-" + sha256(identity.encode()).hexdigest()
        if engine == "sqlite":
            return self._handle(key, limits, lambda _: SqliteDatabase(path))
        return self._handle(
            key, limits, lambda key: DuckDBDatabase(key, str(path), limits.memory_mb, self._slots, int(key[5:13], 16))
        )

    def worker_pids(self) -> tuple[int, ...]:
        """Return the process ids of the running DuckDB workers."""
        processes = [slot.process for slot in self._slots]
        return tuple(process.pid for process in processes if process is not None)

    def close(self) -> None:
        """Close every database and stop the workers. Safe to call twice."""
        with self._lock:
            self._closed = True
            entries, self._entries = self._entries, OrderedDict()
        _close(list(entries.values()))
        for slot in self._slots:
            with slot.lock:
                slot.close()

    def _handle(self, key: str, limits: QueryLimits, make: Callable[[str], SharedDatabase]) -> DatabaseHandle:
        with self._lock:
            if self._closed:
                raise UsageError("this database pool is closed")
            entry = self._entries.setdefault(key, _Entry())
            entry.users += 1
        try:
            with entry.opening:  # opening takes a while; callers that want other databases do not wait for it
                if entry.shared is None:
                    entry.shared = make(key)
        except BaseException:
            self._release(key, entry)
            raise
        return DatabaseHandle(entry.shared, limits, lambda: self._release(key, entry))

    def _release(self, key: str, entry: _Entry) -> None:
        with self._lock:
            entry.users -= 1
            if entry.users or self._entries.get(key) is not entry:
                return
            if entry.shared is None:
                del self._entries[key]
                return
            self._entries.move_to_end(key)
            idle = [name for name, other in self._entries.items() if not other.users]
            dropped = [self._entries.pop(name) for name in idle[: max(0, len(idle) - self._max_idle)]]
        _close(dropped)

    def _after_fork(self) -> None:
        self._lock = threading.RLock()
        for slot in self._slots:
            slot.after_fork()
        for entry in self._entries.values():
            entry.opening = threading.Lock()
            if entry.shared is not None:
                entry.shared.after_fork()


def _close(entries: list[_Entry]) -> None:
    for entry in entries:
        if entry.shared is not None:
            entry.shared.close()


_pools: weakref.WeakSet[DatabasePool] = weakref.WeakSet()
_default_lock = threading.Lock()
_default: DatabasePool | None = None


def default_pool() -> DatabasePool:
    """Return this process's pool."""
    global _default
    with _default_lock:
        if _default is None:
            _default = DatabasePool()
        return _default


def open_database(spec: DatabaseSpec, engine: str = "duckdb", limits: QueryLimits = DEFAULT_LIMITS) -> DatabaseHandle:
    """Open a database with the content of `spec` in this process's pool.

    Args:
        spec: The database's content.
        engine: `"duckdb"` or `"sqlite"`.
        limits: The default limits of a statement; `query` can override them.
    """
    return default_pool().open(spec, engine, limits)


def open_file(path: str | Path, engine: str, limits: QueryLimits = DEFAULT_LIMITS) -> DatabaseHandle:
    """Open an existing database file read-only in this process's pool."""
    return default_pool().open_file(path, engine, limits)


def _check_engine(engine: str) -> None:
    if engine not in ENGINES:
        raise UsageError(f"unknown database engine {engine!r}; choose one of {', '.join(ENGINES)}")


def _after_fork_in_child() -> None:
    global _default_lock
    _default_lock = threading.Lock()
    for pool in _pools:
        pool._after_fork()


def _at_exit() -> None:
    for pool in list(_pools):
        pool.close()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
