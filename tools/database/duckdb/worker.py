"""The DuckDB worker: a separate process that opens databases and runs statements for its parent.

Run as `python -m agentgym.tools.database.duckdb.worker` in its own empty directory, which it removes when its
parent is gone. Speaks frames (`wire.py`) over stdin and stdout. Nothing else imports this module.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from typing import BinaryIO

import duckdb

from agentgym.tools.database import wire
from agentgym.tools.database.base import QueryError, QueryErrorKind, QueryLimits
from agentgym.tools.database.duckdb.files import build, introspect, lock_down
from agentgym.tools.database.duckdb.guard import ALLOWED, DuckDBGuard
from agentgym.tools.database.results import collect, header
from agentgym.tools.database.statements import forbidden, shorten, too_much_memory, too_slow
from agentgym.tools.database.worker_limits import Watchdog, address_space, install_utc_timezones, resident_mb

RETIRE_MB = 1024
"""A worker is replaced when it keeps this much more memory than one statement may use."""

_OWN_TABLES = re.compile(r'\s*Did you mean "(?:pg_|duckdb_|sqlite_|pragma_|information_schema)[^"]*"\?')
"""A suggestion for a misspelt name that would lead the model away from the database's tables."""
_KINDS: tuple[tuple[type[BaseException], QueryErrorKind], ...] = (
    (duckdb.ParserException, QueryErrorKind.SYNTAX),
    (duckdb.SyntaxException, QueryErrorKind.SYNTAX),
    (duckdb.BinderException, QueryErrorKind.SYNTAX),
    (duckdb.CatalogException, QueryErrorKind.SYNTAX),
    (duckdb.PermissionException, QueryErrorKind.FORBIDDEN),
)


@dataclass
class _Open:
    connection: duckdb.DuckDBPyConnection
    guard: DuckDBGuard
    directory: str
    paths: tuple[str, ...]
    """Text that error messages must not reveal."""


class DuckDBWorker:
    """Keeps databases open and answers requests."""

    def __init__(self) -> None:
        self._databases: dict[str, _Open] = {}
        self._watchdog = Watchdog()
        self._home = os.getcwd()

    def answer(self, request: wire.Message) -> wire.Message:
        """Return the reply: `ok`, `error` (the statement failed), `refused` (the database did) or `broken` (we did)."""
        try:
            for name in request.get("close", ()):
                self._close(name)
            if request["op"] == "open":
                return {"ok": self._open(request)}
            return self._query(request)
        except duckdb.Error as error:
            return {"refused": shorten(_useful_lines(str(error)))}
        except (OSError, MemoryError) as error:
            return {"broken": shorten(f"{type(error).__name__}: {error}")}

    def _open(self, request: wire.Message) -> wire.Message:
        name = request["db"]
        directory = os.path.join(self._home, name)
        os.makedirs(directory)
        try:
            path = os.path.join(directory, "db.duckdb")
            if request["path"] is None:
                build(path, request["tables"])
            else:
                os.symlink(request["path"], path)
            connection = lock_down(path, request["memory_mb"])
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        paths = (os.path.realpath(path), path, self._home)
        self._databases[name] = _Open(connection, DuckDBGuard(connection), directory, paths)
        return {"tables": introspect(connection) if request["path"] is not None else []}

    def _close(self, name: str) -> None:
        if database := self._databases.pop(name, None):
            database.connection.close()
            shutil.rmtree(database.directory, ignore_errors=True)

    def _query(self, request: wire.Message) -> wire.Message:
        database = self._databases[request["db"]]
        limits = QueryLimits(**request["limits"])
        cursor = database.connection.cursor()
        started = time.perf_counter()
        try:
            with address_space(limits.memory_mb), self._watchdog.watch(cursor, limits.timeout_s):
                cursor.execute(database.guard.check(request["sql"]))
                description = cursor.description or ()
                columns = header((item[0] for item in description), limits)
                types = header((item[1] for item in description), limits)
                rows, truncated = collect(cursor.fetchmany, limits)
            reply: wire.Message = {
                "columns": columns,
                "types": types,
                "rows": wire.encode_rows(rows),
                "truncated": truncated,
                "elapsed_s": time.perf_counter() - started,
            }
            return {"ok": reply, "retire": resident_mb() > limits.memory_mb + RETIRE_MB}
        except (duckdb.InternalException, duckdb.FatalException):
            raise SystemExit(1) from None  # the database is now unusable; the parent starts a new process
        except (duckdb.Error, QueryError, MemoryError, RuntimeError, ValueError, ImportError) as error:
            problem = _explain(error, database, limits)
            retire = resident_mb() > limits.memory_mb + RETIRE_MB
            return {"error": {"kind": problem.kind.value, "message": str(problem)}, "retire": retire}
        finally:
            with contextlib.suppress(duckdb.Error):
                cursor.close()


def _explain(error: BaseException, database: _Open, limits: QueryLimits) -> QueryError:
    """Return the error to show the model."""
    if isinstance(error, QueryError):
        return error
    if isinstance(error, duckdb.InterruptException) or "INTERRUPT" in str(error):
        return too_slow(limits)
    if isinstance(error, MemoryError | duckdb.OutOfMemoryException) or "bad_alloc" in str(error):
        return too_much_memory(limits)
    message = _useful_lines(str(error))
    if "expression depth" in message:
        return QueryError("The statement is nested too deeply; write a simpler one.", QueryErrorKind.TOO_LARGE)
    for path in database.paths:
        message = message.replace(path, "db")
    if "read-only mode" in message:
        return forbidden("The statement would write.", ALLOWED)
    kind = next((kind for cls, kind in _KINDS if isinstance(error, cls)), QueryErrorKind.RUNTIME)
    if kind is QueryErrorKind.FORBIDDEN:
        return forbidden("Files, extensions and settings are not accessible.", ALLOWED)
    return QueryError(shorten(message), kind)


def _useful_lines(message: str) -> str:
    """Drop the echoed statement, Python's traceback, and suggestions that name the engine's own tables."""
    for mark in ("\n\nLINE ", "\nLINE ", "\nTraceback"):
        message = message.partition(mark)[0]
    return _OWN_TABLES.sub("", message)


def _read(stream: BinaryIO) -> wire.Message | None:
    header = stream.read(wire.HEADER.size)
    if len(header) < wire.HEADER.size:
        return None
    body = stream.read(wire.HEADER.unpack(header)[0])
    return wire.unpack(body)


def main() -> None:
    """Answer requests until the parent closes the pipe, then remove the working directory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and then closes the pipe
    install_utc_timezones()
    requests = sys.stdin.buffer
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # library output must not look like a frame
    worker = DuckDBWorker()
    home = os.getcwd()
    message: wire.Message | None = {"ok": {"pid": os.getpid()}}
    while message is not None:
        try:
            replies.write(wire.pack(message))
            replies.flush()
        except BrokenPipeError:
            break
        request = _read(requests)
        message = worker.answer(request) if request is not None else None
    shutil.rmtree(home, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
