"""The DuckDB engine: runs statements in a worker process that can be killed at any time."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.base.interpreters import command_of
from agentgym.tools.database import wire
from agentgym.tools.database.base import QueryError, QueryErrorKind, QueryLimits, QueryResult
from agentgym.tools.database.results import quote_name, too_much_memory, too_slow
from agentgym.tools.database.schema import Column, DatabaseSpec, ForeignKey, Table
from agentgym.tools.database.shared import TRUSTED_LIMITS, schema_of

START_TIMEOUT_S = 60.0
MAX_REPLY_BYTES = 1 << 28
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")


class WorkerDied(Exception):
    """The process died; `signal` is the signal that killed it (0: it exited)."""

    def __init__(self, signal: int):
        super().__init__(f"the DuckDB worker died (signal {signal})" if signal else "the DuckDB worker exited")
        self.signal = signal


class WorkerTimeout(Exception):
    """The process did not reply in time."""


class WorkerProcess:
    """A running worker. Its owner's lock must be held."""

    def __init__(self) -> None:
        try:
            self.directory = tempfile.mkdtemp(prefix="agentgym-duckdb-")
            self._log = os.path.join(self.directory, "worker.log")
            self._process = _start(self.directory, self._log)
        except OSError as error:
            raise InfrastructureError(f"cannot start a DuckDB worker: {error}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)
        self._await_start()

    def _await_start(self) -> None:
        try:
            self._receive(time.monotonic() + START_TIMEOUT_S)
        except (WorkerDied, WorkerTimeout, ValueError) as error:
            with open(self._log, errors="replace") as log:
                last = (log.read().strip().splitlines() or ["no output"])[-1]
            self.kill()
            raise InfrastructureError(f"the DuckDB worker did not start: {error or 'timeout'}; {last}") from error

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether the process is still running."""
        return self._process.poll() is None

    def request(self, message: wire.Message, timeout_s: float) -> wire.Message:
        """Send `message` and return the reply; raise `WorkerDied` or `WorkerTimeout`."""
        deadline = time.monotonic() + timeout_s
        self._send(wire.pack(message), deadline)
        return self._receive(deadline)

    def kill(self) -> None:
        """Kill the process and remove its directory."""
        self._process.kill()
        self._process.wait()
        self._stdin.close()
        self._stdout.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def disown(self) -> None:
        """In a forked child: forget the parent's process without closing its pipe."""
        self._stdin.close()
        self._stdout.close()
        self._process.returncode = 0

    def _send(self, data: bytes, deadline: float) -> None:
        fd, view = self._stdin.fileno(), memoryview(data)
        while view:
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                self._wait(fd, select.POLLOUT, deadline)
            except BrokenPipeError:
                raise self._death() from None

    def _receive(self, deadline: float) -> wire.Message:
        (size,) = wire.HEADER.unpack(self._read(wire.HEADER.size, deadline))
        if size > MAX_REPLY_BYTES:
            raise ValueError(f"the DuckDB worker announced a reply of {size} bytes")
        return wire.unpack(self._read(size, deadline))

    def _read(self, size: int, deadline: float) -> bytearray:
        fd, data = self._stdout.fileno(), bytearray()
        while len(data) < size:
            self._wait(fd, select.POLLIN, deadline)
            chunk = os.read(fd, min(size - len(data), 1 << 20))
            if not chunk:
                raise self._death()
            data += chunk
        return data

    def _wait(self, fd: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(fd, event)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise WorkerTimeout("no reply in time")

    def _death(self) -> WorkerDied:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return WorkerDied(-code if code < 0 else 0)


def _start(directory: str, log: str) -> subprocess.Popen[bytes]:
    with open(log, "wb") as errors:
        return subprocess.Popen(
            command_of("agentgym.tools.database.duckdb.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
            cwd=directory,
            env=_environment(),
            start_new_session=True,
        )


def _environment() -> dict[str, str]:
    """Return only the variables that the worker needs, without the parent's secrets."""
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return environment | {
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "MALLOC_ARENA_MAX": "2",
    }


KILL_AFTER_S = 1.0
"""Seconds past a statement's time limit after which its worker is killed."""
OPEN_TIMEOUT_S = 120.0
MAX_OPEN = 128
"""Databases that a worker keeps open; the least recently used is evicted and rebuilt when needed."""
TYPE_NAMES = {"INTEGER": "BIGINT", "DOUBLE": "DOUBLE", "VARCHAR": "VARCHAR", "DATE": "DATE", "BOOLEAN": "BOOLEAN"}


class WorkerSlot:
    """Manages one worker process: starts it on demand, replaces it when it is gone, serialises requests."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: WorkerProcess | None = None
        self._opened: OrderedDict[str, list[dict[str, Any]]] = OrderedDict()
        """The databases that the worker has open, with the tables of database files."""
        self._unwanted: set[str] = set()
        self._closed = False

    def run(self, database: DuckDBDatabase, sql: str, limits: QueryLimits) -> QueryResult:
        """Run `sql`. The caller must hold the lock."""
        message = {"op": "query", "db": database.key, "sql": sql, "limits": asdict(limits)}
        died = WorkerDied(0)
        for _ in range(2):  # a process can die for a reason other than the statement; then the second try succeeds
            self.open(database)
            try:
                reply = self._request(message, limits.timeout_s + KILL_AFTER_S)
            except WorkerTimeout:
                self.stop()
                raise too_slow(limits) from None
            except WorkerDied as error:
                self.stop()
                died = error
                continue
            return _result(reply)
        if died.signal in (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV):
            raise too_much_memory(limits)
        raise QueryError("The engine cannot run this statement; rewrite it.", QueryErrorKind.RUNTIME)

    def open(self, database: DuckDBDatabase) -> list[dict[str, Any]]:
        """Start the worker and open `database` in it if needed; return the tables of a database file."""
        if self._closed:
            raise UsageError(f"the pool of database {database.name!r} is closed; open it in another pool")
        if self.process is not None and not self.process.alive():
            self.stop()
        self._unwanted.discard(database.key)
        if database.key in self._opened:
            self._opened.move_to_end(database.key)
            return self._opened[database.key]
        reply = self._request_opening(database)
        if "ok" not in reply:
            error = UsageError if "refused" in reply else InfrastructureError
            raise error(f"cannot open database {database.name!r}: {reply.get('refused') or reply.get('broken')}")
        self._opened[database.key] = reply["ok"]["tables"]
        self._unwanted.update(list(self._opened)[: max(0, len(self._opened) - MAX_OPEN)])
        return self._opened[database.key]

    def _request_opening(self, database: DuckDBDatabase) -> wire.Message:
        problem: Exception | None = None
        for _ in range(2):
            if self.process is None:
                self.process = WorkerProcess()
            try:
                return self._request(database.opening(), OPEN_TIMEOUT_S)
            except (WorkerDied, WorkerTimeout) as error:
                self.stop()
                problem = error
        raise InfrastructureError(f"cannot open database {database.name!r}: {problem}") from problem

    def forget(self, key: str) -> None:
        """Have the worker close the database `key` with its next request. Needs no lock."""
        self._unwanted.add(key)

    def stop(self) -> None:
        """Stop the worker; the next request starts another."""
        process, self.process = self.process, None
        self._opened.clear()
        self._unwanted.clear()
        if process is not None:
            process.kill()

    def close(self) -> None:
        """Stop the worker for good."""
        self._closed = True
        self.stop()

    def after_fork(self) -> None:
        """In a forked child: disown the parent's worker."""
        self.lock = threading.Lock()
        process, self.process = self.process, None
        self._opened.clear()
        self._unwanted.clear()
        if process is not None:
            process.disown()

    def _request(self, message: wire.Message, timeout_s: float) -> wire.Message:
        assert self.process is not None
        closing = []
        while self._unwanted:
            key = self._unwanted.pop()
            self._opened.pop(key, None)
            closing.append(key)
        try:
            reply = self.process.request(message | {"close": closing}, timeout_s)
        except ValueError as error:
            self.stop()
            raise InfrastructureError(f"the DuckDB worker sent an unreadable reply: {error}") from error
        if reply.get("retire"):
            self.stop()
        return reply


class DuckDBDatabase:
    """A database inside worker processes, built from a spec or opened from a file."""

    engine = "duckdb"

    def __init__(
        self, key: str, source: DatabaseSpec | str, memory_mb: int, slots: tuple[WorkerSlot, ...], home: int = 0
    ):
        self.key = key
        self.name = source.name if isinstance(source, DatabaseSpec) else "file"
        self._source = source
        self._memory_mb = memory_mb
        self._slots = slots[home % len(slots) :] + slots[: home % len(slots)]
        self._counts: dict[str, int] = {}
        if isinstance(source, DatabaseSpec):
            self.schema = schema_of(source, TYPE_NAMES)
            self._counts = {table.name: len(table.rows) for table in source.tables}
            with self._slot() as slot:
                slot.open(self)
        else:
            with self._slot() as slot:
                self.schema = tuple(_table(entry) for entry in slot.open(self))

    def run(self, sql: str, limits: QueryLimits) -> QueryResult:
        """Run one statement in the first idle worker."""
        with self._slot() as slot:
            return slot.run(self, sql, limits)

    def row_count(self, table: str) -> int:
        """Return the number of rows; for a file, it is counted once."""
        if table not in self._counts:
            value = self.run(f"SELECT count(*) FROM {quote_name(table)}", TRUSTED_LIMITS).rows[0][0]
            self._counts[table] = int(str(value))
        return self._counts[table]

    def close(self) -> None:
        """Have the workers close it."""
        for slot in self._slots:
            slot.forget(self.key)

    def after_fork(self) -> None:
        """Do nothing: the pool resets the slots."""

    def opening(self) -> wire.Message:
        """Return the request that opens this database in a worker."""
        message: wire.Message = {"op": "open", "db": self.key, "memory_mb": self._memory_mb, "path": None}
        if isinstance(self._source, str):
            return message | {"path": self._source}
        return message | {"tables": [_content(table) for table in self._source.tables]}

    @contextmanager
    def _slot(self) -> Iterator[WorkerSlot]:
        slot = next((slot for slot in self._slots if slot.lock.acquire(blocking=False)), None)
        if slot is None:
            slot = self._slots[0]
            slot.lock.acquire()
        lock = slot.lock
        try:
            yield slot
        finally:
            lock.release()


def _content(table: Table) -> dict[str, Any]:
    columns = [[wire.encode_value(row[i]) for row in table.rows] for i in range(len(table.columns))]
    return {
        "name": table.name,
        "columns": [[column.name, TYPE_NAMES[column.type]] for column in table.columns],
        "primary_key": table.primary_key,
        "data": columns,
    }


def _table(entry: dict[str, Any]) -> Table:
    columns = tuple(Column(str(name), str(kind)) for name, kind in entry["columns"])
    keys = tuple(ForeignKey(str(a), str(target), str(b)) for a, target, b in entry["foreign_keys"])
    return Table(str(entry["name"]), columns, (), entry["primary_key"], keys)


def _result(reply: wire.Message) -> QueryResult:
    if error := reply.get("error"):
        raise QueryError(str(error["message"]), QueryErrorKind(error["kind"]))
    try:
        ok = reply["ok"]
        columns, types = tuple(map(str, ok["columns"])), tuple(map(str, ok["types"]))
        rows = wire.decode_rows(ok["rows"])
        return QueryResult(columns, types, rows, bool(ok["truncated"]), float(ok["elapsed_s"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InfrastructureError(f"the DuckDB worker failed: {reply.get('broken', error)}") from error
