"""Runs the scripts of a task, which prepare its database and judge it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from agentgym.errors import InfrastructureError
from agentgym.tools.postgres import PORT, USER, Server

_SCRIPT_S = 300.0
_SAID_CHARS = 500


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
        server.end_connections(database)
        raise InfrastructureError(f"{script} does not end: {error}") from error


def accepts(server: Server, database: str, script: Path) -> bool:
    """Return whether a task's own script accepts a database.

    Raises:
        InfrastructureError: The server ended meanwhile, or the script gives no verdict.
    """
    done = run_script(server, database, script)
    if not server.is_alive():
        raise InfrastructureError(f"the PostgreSQL server ended before {script} did: {said(done)}")
    if "ModuleNotFoundError" in done.stderr or done.returncode < 0:
        raise InfrastructureError(f"{script} cannot run here: {said(done)}")
    return done.returncode == 0


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Return the end of what a program printed."""
    return (done.stdout + done.stderr).strip()[-_SAID_CHARS:]
