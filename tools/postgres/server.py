"""`Server`: a PostgreSQL server in a temporary folder, reached by a Unix socket in it."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import weakref
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from agentgym.errors import InfrastructureError, require
from agentgym.tools.postgres.confining import Confinement, confinement
from agentgym.tools.postgres.programs import find_programs

if TYPE_CHECKING:
    import psycopg

PORT, USER = 5432, "postgres"
"""Of the name of the socket, and of the superuser, as in the images of PostgreSQL."""
_SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "32MB",
    "max_connections": "20",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_wal_size": "64MB",
    "unix_socket_permissions": "0777",
    "dynamic_shared_memory_type": "mmap",
}
_CLUSTER = ("--auth=trust", "--no-sync", "--wal-segsize=1", "-E", "UTF8", "--locale=C.UTF-8")
_MAKE_S, _START_S, _STOP_S, _PING_S = 120.0, 60.0, 10.0, 30.0
_BETWEEN_S = 0.05
_MEMORY_KIB = 1 << 20
"""Address space of each of its processes: a query that needs more fails, also one whose row would be as large here."""
_WATCHED = """
ulimit -v MEMORY
exec 3<&0
"$@" 3<&- </dev/null & server=$!
(cat <&3 >/dev/null; kill -SIGNAL $server) & watch=$!
wait $server
kill $watch
"""
"""Runs a server until it ends, or until the process that started it does: then nobody holds its standard input."""
_NOT_READY = ("starting up", "shutting down", "recovery mode", "not yet accepting")


class Server:
    """A PostgreSQL server. It ends when it is closed, or when this process ends.

    All connections are trusted: only this process's user and root can reach the socket.
    """

    def __init__(self, folder: Path, process: subprocess.Popen[Any], programs: Path, *, confined: bool):
        self.folder, self.programs, self.confined = folder, programs, confined
        self._process = process
        self._ended = weakref.finalize(self, _end, process, folder, os.getpid())

    @classmethod
    def start(cls, *, allow_weak: bool = False) -> Self:
        """Make a cluster and start a server for it.

        Args:
            allow_weak: Start it unconfined if it cannot be confined.

        Raises:
            UsageError: PostgreSQL is not installed, or the server cannot be confined.
            InfrastructureError: It does not start.
        """
        require("psycopg", "postgres")
        programs, confined = find_programs(), confinement(allow_weak=allow_weak)
        folder = Path(tempfile.mkdtemp(prefix="agentgym-pg-"))
        try:
            confined.own_folder(folder)
            _make_cluster(folder, programs, confined)
            server = cls(folder, _launch(folder, programs, confined), programs, confined=confined.holds)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        try:
            server.wait_until_ready(_START_S)
        except BaseException:
            server.close()
            raise
        return server

    def connect(self, database: str = USER) -> psycopg.Connection[Any]:
        """Connect as the superuser; each statement is a transaction. Raises `psycopg.OperationalError`."""
        import psycopg

        return psycopg.connect(
            host=str(self.folder), port=PORT, user=USER, dbname=database, autocommit=True, connect_timeout=int(_PING_S)
        )

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement of ours and return its rows. Raises `InfrastructureError` if it fails."""
        import psycopg

        try:
            with self.connect() as connection:
                cursor = connection.execute(sql.encode())
                return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise InfrastructureError(f"the PostgreSQL server fails: {error}") from error

    def is_alive(self) -> bool:
        """Whether the server responds, even if it refuses the connection."""
        try:
            self.wait_until_ready(_PING_S)
        except InfrastructureError:
            return False
        return True

    def wait_until_ready(self, seconds: float) -> None:
        """Wait until it responds. Raises `InfrastructureError` if it ends or does not."""
        import psycopg

        deadline, why = time.monotonic() + seconds, ""
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError as error:
                why = str(error)
                if "FATAL" in why and not any(words in why for words in _NOT_READY):
                    return
            time.sleep(_BETWEEN_S)
        raise InfrastructureError(f"the PostgreSQL server does not respond: {why.strip()} {self._said()}")

    def create_database(self, name: str, template: str = "template0") -> None:
        """Make a database as a copy of another one, to which nobody is connected."""
        self.run(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')

    def drop_database(self, name: str) -> None:
        """Remove a database, with all connections to it."""
        self.run(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def end_connections(self, name: str) -> None:
        """End all connections to a database: what a client began that is gone would go on."""
        self.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")

    def close(self) -> None:
        """Stop the server and remove its files."""
        self._ended()

    def _said(self) -> str:
        with contextlib.suppress(OSError):
            return (self.folder / "log").read_text(errors="replace")[-500:]
        return ""


def _make_cluster(folder: Path, programs: Path, confined: Confinement) -> None:
    """Put a cluster into a folder: a copy of the first one of this process, since making one takes seconds."""
    first, target = _first_cluster(programs, confined.holds, os.getpid()), folder / "data"
    shutil.copytree(first / "data", target, symlinks=True)
    if confined.user.drop:
        for above, folders, files in os.walk(target):
            for name in (".", *folders, *files):
                os.chown(Path(above, name), confined.user.uid, confined.user.gid, follow_symlinks=False)


@cache
def _first_cluster(programs: Path, holds: bool, pid: int) -> Path:
    """Make a cluster that is only copied. It is removed when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="agentgym-pg-"))
    atexit.register(_remove_in, pid, folder)
    confined = confinement(allow_weak=not holds)
    confined.own_folder(folder)
    argv = [str(programs / "initdb"), "-D", str(folder / "data"), "-U", USER, *_CLUSTER]
    command = confined.command(argv, folder, programs, shell=True)
    options = confined.user.popen_options()
    try:
        done = subprocess.run(command, capture_output=True, timeout=_MAKE_S, cwd="/", **options)
    except (OSError, subprocess.SubprocessError) as error:
        raise InfrastructureError(f"initdb does not run: {error}") from error
    if done.returncode != 0:
        raise InfrastructureError(f"initdb fails: {done.stderr.decode('utf-8', 'replace').strip()[-500:]}")
    return folder


def _remove_in(pid: int, folder: Path) -> None:
    if os.getpid() == pid:  # and not in a child that was forked
        shutil.rmtree(folder, ignore_errors=True)


def _launch(folder: Path, programs: Path, confined: Confinement) -> subprocess.Popen[Any]:
    settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
    argv = [str(programs / "postgres"), "-D", str(folder / "data"), "-k", str(folder), *settings]
    command = confined.command(argv, folder, programs, shell=False)
    # bubblewrap takes what it confines with it; PostgreSQL itself ends its sessions on INT.
    watched = _WATCHED.replace("SIGNAL", "TERM" if confined.holds else "INT").replace("MEMORY", str(_MEMORY_KIB))
    with (folder / "log").open("wb") as log:
        try:
            return subprocess.Popen(
                ["sh", "-c", watched, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                **confined.user.popen_options(),
            )
        except OSError as error:
            raise InfrastructureError(f"postgres does not run: {error}") from error


def _end(process: subprocess.Popen[Any], folder: Path, pid: int) -> None:
    """End a server. In a child that was forked, let go of it alone: it is its parent's."""
    assert process.stdin is not None
    process.stdin.close()
    if os.getpid() != pid:
        return
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)
