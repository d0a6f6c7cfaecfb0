"""Restores a backup, and refuses one of which anything but rights and settings is missing afterwards."""

from __future__ import annotations

import contextlib
import re
import subprocess
from pathlib import Path

from agentgym.envs.mcpmark.scripts import said
from agentgym.errors import InfrastructureError, UsageError
from agentgym.tools.postgres import PORT, USER, Server

_RESTORE_S = 1800.0
_ERROR = re.compile(r"^pg_restore: error: ", re.MULTILINE)
_ABOUT_RIGHTS = "ALTER [^\n]* OWNER TO|ALTER DEFAULT PRIVILEGES|GRANT|REVOKE|COMMENT ON|SET|CREATE SCHEMA public"
_HARMLESS = re.compile(rf"^Command was: (?:{_ABOUT_RIGHTS})\b", re.MULTILINE)
"""Commands that may fail, since the data are there without them: they name roles and settings of another server."""
_TABLES = "SELECT 1 FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
_NEWER = "unsupported version"


def restore(server: Server, database: str, backup: Path) -> None:
    """Fill an empty database.

    Raises:
        UsageError: The backup is from a newer PostgreSQL than the one here.
        InfrastructureError: It cannot be restored, or not wholly.
    """
    reached = ["-h", str(server.folder), "-p", str(PORT), "-U", USER, "-d", database]
    script = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(backup)]
    tool, rest = ("psql", script) if backup.suffix == ".sql" else ("pg_restore", [str(backup)])
    command = [str(server.programs / tool), *reached, *rest]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=_RESTORE_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise InfrastructureError(f"{backup} cannot be restored: {error}") from error
    if tool == "pg_restore" and _NEWER in done.stderr:
        raise UsageError(
            f"{backup} is from a newer PostgreSQL than the one in {str(server.programs)!r}, whose pg_restore says: "
            f"{said(done)}; install the newer one, and name the folder of its programs in AGENTGYM_POSTGRES"
        )
    if done.returncode != 0 and not _holds_all(done.stderr):
        raise InfrastructureError(f"{backup} cannot be restored: {said(done)}")
    _settle(server, database, backup)


def _settle(server: Server, database: str, backup: Path) -> None:
    """Check that there is something in a database, and gather what the planner needs to know of it.

    Autovacuum would do that a minute later, which is too late for the copies; without it, some scripts of MCPMark take
    minutes instead of a second.
    """
    import psycopg

    try:
        with server.connect(database) as connection:
            if connection.execute(_TABLES).fetchone() is None:
                raise InfrastructureError(
                    f"{backup} leaves its database empty: it must not create or connect to another one"
                )
            with contextlib.suppress(psycopg.Error):  # as where an index uses a function of another extension
                connection.execute("VACUUM ANALYZE")
    except psycopg.Error as error:
        raise InfrastructureError(f"the PostgreSQL server fails: {error}") from error


def _holds_all(errors: str) -> bool:
    """Return whether `pg_restore` went on to the end, and failed only at what is harmless."""
    return "errors ignored on restore" in errors and len(_ERROR.findall(errors)) == len(_HARMLESS.findall(errors))
