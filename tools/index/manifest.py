"""What an index folder says about itself, in a small JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from agentgym.errors import UsageError

FORMAT = 1
"""Grows when folders of older versions can no longer be read."""
_FILE = "index.json"


@dataclass(frozen=True)
class Manifest:
    """The backend, how many documents, which ones, and what else is needed to open them."""

    backend: str
    count: int
    content: str
    """The `content_hash` of the documents."""
    settings: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write it into a folder."""
    (folder / _FILE).write_text(json.dumps(asdict(manifest), indent=1) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """Read what a folder says about itself.

    Raises:
        UsageError: There is no index, or none that this version can read.
    """
    try:
        manifest = Manifest(**json.loads((folder / _FILE).read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"there is no index in {str(folder)!r}; make one with build_index") from None
    except (ValueError, TypeError):
        raise UsageError(f"{str(folder / _FILE)!r} is no description of an index; build it again") from None
    if manifest.format != FORMAT:
        found = f"{str(folder)!r} has format {manifest.format!r}"
        raise UsageError(f"the index in {found}, and this version reads {FORMAT}; build it again")
    return manifest


def is_index(folder: Path) -> bool:
    """Whether an index was put there, of whatever format."""
    return (folder / _FILE).is_file()
