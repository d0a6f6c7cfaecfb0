"""Packs the repositories of the bundled tasks into their archive.

`python -m agentgym.envs.swe.building.pack FOLDER` rewrites it from a folder that holds a folder for each repository.
"""

from __future__ import annotations

import sys
from pathlib import Path

from agentgym.envs.swe.building.build import archive_of
from agentgym.tasks.swe.bundled import REPOSITORIES
from agentgym.tasks.swe.package import read_tree


def pack(folder: Path, archive: Path = REPOSITORIES) -> None:
    """Write the archive. The same files give the same bytes. Raises `UsageError` if there is no such folder."""
    archive.write_bytes(archive_of(read_tree(folder)))


if __name__ == "__main__":
    pack(Path(sys.argv[1]))
