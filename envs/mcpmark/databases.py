"""The database of an episode: made from a backup or by a task's own script, and judged by its `verify.py`."""

from __future__ import annotations

import hashlib
import os
import secrets
import subprocess
import sys
from pathlib import Path

from agentgym.errors import InfrastructureError
from agentgym.tools.postgres import KEPT, PORT, USER, Server

_RESTORE_S, _SCRIPT_S = 1800.0, 300.0
_TOLERATED = "errors ignored on restore"
"""What `pg_restore` says when the data are there, but not, say, an owner that this server does not have."""
_SAID_CHARS = 500


def from_backup(server: Server, backup: Path) -> str:
    """Make a database with the content of a backup, which a server reads once, and return its name."""
    state = backup.stat()
    known = f"{backup.resolve()} {state.st_size} {state.st_mtime_ns}"
    template = f"{KEPT}{hashlib.sha256(known.encode()).hexdigest()[:24]}"
    if not server.run(f"SELECT 1 FROM pg_database WHERE datname = '{template}'"):
        server.create_database(template)
        try:
            _restore(server, template, backup)
            server.run(f'ALTER DATABASE "{template}" ALLOW_CONNECTIONS false')
        except BaseException:
            server.drop_database(template)
            raise
    return _fresh(server, template)


def from_script(server: Server, script: Path) -> str:
    """Make a database that a task's own script fills, and return its name."""
    database = _fresh(server, "template0")
    try:
        done = run_script(server, database, script)
        if done.returncode != 0:
            raise InfrastructureError(f"{script} fails with exit code {done.returncode}: {_said(done)}")
    except BaseException:
        server.drop_database(database)
        raise
    return database


def accepts(server: Server, database: str, script: Path) -> bool:
    """Return whether a task's own script accepts a database.

    Raises:
        InfrastructureError: The server ended meanwhile, or the script cannot run here.
    """
    done = run_script(server, database, script)
    if not server.is_alive():
        raise InfrastructureError(f"the PostgreSQL server ended before {script} did: {_said(done)}")
    if "ModuleNotFoundError" in done.stderr or done.returncode < 0:
        raise InfrastructureError(f"{script} cannot run here: {_said(done)}")
    return done.returncode == 0


def run_script(server: Server, database: str, script: Path) -> subprocess.CompletedProcess[str]:
    """Run a script of a task as MCPMark does: it finds the database by environment variables.

    Raises:
        InfrastructureError: It does not come to an end.
    """
    place = {"HOST": str(server.folder), "PORT": str(PORT), "DATABASE": database}
    known = {**place, "USERNAME": USER, "PASSWORD": "unused"}
    variables = {f"POSTGRES_{name}": value for name, value in known.items()}
    try:
        return subprocess.run(
            [sys.executable, script.name],
            cwd=script.parent,
            env={"PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8", **variables},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_SCRIPT_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise InfrastructureError(f"{script} does not end: {error}") from error


def _fresh(server: Server, template: str) -> str:
    name = f"mcpmark_{secrets.token_hex(6)}"
    server.create_database(name, template)
    return name


def _restore(server: Server, database: str, backup: Path) -> None:
    reached = ["-h", str(server.folder), "-p", str(PORT), "-U", USER, "-d", database]
    script = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(backup)]
    tool, rest = ("psql", script) if backup.suffix == ".sql" else ("pg_restore", [str(backup)])
    command = [str(server.programs / tool), *reached, *rest]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=_RESTORE_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise InfrastructureError(f"{backup} cannot be restored: {error}") from error
    if done.returncode != 0 and _TOLERATED not in done.stderr:
        raise InfrastructureError(f"{backup} cannot be restored: {_said(done)}")


def _said(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stdout + done.stderr).strip()[-_SAID_CHARS:]
