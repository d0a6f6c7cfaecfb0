"""`Database`: what an episode works on, made from a backup or by a task's own script, on a server of its own."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from agentgym.envs.mcpmark.restoring import restore
from agentgym.envs.mcpmark.scripts import run_script, said
from agentgym.errors import InfrastructureError
from agentgym.tools.postgres import KEPT, Server, ServerPool


@dataclass(frozen=True)
class Database:
    """A database on a server that nobody else uses meanwhile."""

    server: Server
    name: str
    pool: ServerPool
    """Where the server is from."""

    @classmethod
    def make(cls, pool: ServerPool, backup: Path | None, script: Path) -> Self:
        """Make a database with the content of a backup or, if there is none, one that a script fills.

        Raises:
            UsageError: There is no server here, or none that reads the backup.
            InfrastructureError: The server, the backup or the script fails.
        """
        server = pool.lend()
        try:
            name = _from_script(server, script) if backup is None else _from_backup(server, backup)
        except BaseException:
            pool.give_back(server)
            raise
        return cls(server, name, pool)

    def close(self) -> None:
        """Remove it, and give the server back."""
        try:
            self.server.drop_database(self.name)
        except InfrastructureError:
            self.server.close()
        self.pool.give_back(self.server)


def _from_backup(server: Server, backup: Path) -> str:
    """Copy a template with the content of a backup, which a server reads once."""
    state = backup.stat()
    known = f"{backup.resolve()} {state.st_size} {state.st_mtime_ns}"
    template = f"{KEPT}{hashlib.sha256(known.encode()).hexdigest()[:24]}"
    if not server.run(f"SELECT 1 FROM pg_database WHERE datname = '{template}'"):
        server.create_database(template)
        try:
            restore(server, template, backup)
            server.run(f'ALTER DATABASE "{template}" ALLOW_CONNECTIONS false')
        except BaseException:
            server.drop_database(template)
            raise
    return _fresh(server, template)


def _from_script(server: Server, script: Path) -> str:
    database = _fresh(server, "template0")
    try:
        done = run_script(server, database, script)
        if done.returncode != 0:
            raise InfrastructureError(f"{script} fails with exit code {done.returncode}: {said(done)}")
    except BaseException:
        server.drop_database(database)
        raise
    return database


def _fresh(server: Server, template: str) -> str:
    name = f"mcpmark_{secrets.token_hex(6)}"
    server.create_database(name, template)
    return name
