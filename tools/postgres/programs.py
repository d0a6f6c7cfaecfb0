"""Finds PostgreSQL's programs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from agentgym.errors import UsageError

FOLDER = "AGENTGYM_POSTGRES"
"""Variable that names the folder of the programs, if it is not where it is looked for."""
_NEEDED = ("initdb", "postgres", "pg_restore", "psql")


def find_programs() -> Path:
    """Return the folder with PostgreSQL's programs, the newest if there are several.

    Raises:
        UsageError: There are none.
    """
    given = os.environ.get(FOLDER)
    on_path = shutil.which("initdb")
    folders = [Path(given)] if given else [*_of_debian(), *([Path(on_path).resolve().parent] if on_path else [])]
    for folder in folders:
        if all((folder / name).is_file() for name in _NEEDED):
            return folder
    raise UsageError(
        f"PostgreSQL is not installed: its programs {', '.join(_NEEDED)} are in none of {[*map(str, folders)]}; on "
        f"Debian and Ubuntu: apt-get install postgresql; elsewhere name their folder in {FOLDER}"
    )


def _of_debian() -> list[Path]:
    """Return the folders that Debian puts the versions into, the newest first."""
    found = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if path.parent.name.isdecimal()]
    return sorted(found, key=lambda path: int(path.parent.name), reverse=True)
