"""The manifest of an index folder, a small JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from agentgym.errors import UsageError

FORMAT = 1
"""Incremented when older folders can no longer be read."""
_FILE = "index.json"


@dataclass(frozen=True)
class Manifest:
    """The backend, the number and hash of the documents, and the settings needed to open the index."""

    backend: str
    count: int
    content: str
    """The `content_hash` of the documents."""
    settings: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest to a folder."""
    (folder / _FILE).write_text(json.dumps(asdict(manifest), indent=1) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """Read a folder's manifest.

    Raises:
        UsageError: The folder contains no index, or this version cannot read it.
    """
    try:
        manifest = Manifest(**json.loads((folder / _FILE).read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"no index in {str(folder)!r}; build one with: agentgym index build") from None
    except (ValueError, TypeError):
        raise UsageError(f"{str(folder / _FILE)!r} is not a valid index manifest; rebuild the index") from None
    if manifest.format != FORMAT:
        problem = f"{str(folder)!r} has format {manifest.format!r}"
        raise UsageError(f"the index in {problem}, but this version reads {FORMAT}; rebuild it")
    return manifest


def manifest_stamp(folder: Path) -> tuple[int, int] | None:
    """Return a stamp of a folder's manifest that changes when the index is replaced; `None` without a manifest."""
    try:
        status = (folder / _FILE).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def is_index(folder: Path) -> bool:
    """Whether a folder contains an index of any format."""
    return (folder / _FILE).is_file()
