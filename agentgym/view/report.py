"""Writes trajectories as one HTML file that opens from disk and needs no network.

Contents are compressed in chunks of whole groups; the browser unpacks the chunk that it shows.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.base.output_files import first_bytes, refuse_to_replace
from agentgym.view.collection import Collection
from agentgym.view.environments import Environments
from agentgym.view.facts import Contents, all_versus, head_of
from agentgym.view.page import TITLE, whole_page

MAX_MB = 50
"""Default limit of the compressed contents in a report, in megabytes."""
_HEAD_BYTES = 4096
_CHUNK = 1 << 20
"""Size of a chunk before compression."""


@dataclass(frozen=True)
class WrittenReport:
    """The size of a written report."""

    trajectories: int
    """Trajectories in its table."""
    whole: int
    """Trajectories with their contents."""
    size: int
    """Size of the file in bytes."""


def write_report(collection: Collection, path: Path, *, max_mb: float = MAX_MB, trust: bool = False) -> WrittenReport:
    """Write a report.

    Args:
        collection: The trajectories.
        path: The HTML file to write.
        max_mb: Limit of the contents in megabytes. The contents of some groups, spread evenly, are left out to meet it.
        trust: Accept any class and any argument of an environment from the recordings, to read its scheme and tasks.

    Raises:
        UsageError: The file cannot be written, or exists and is not a report.
    """
    refuse_to_replace(path, "a report of agentgym", lambda path: TITLE in first_bytes(path, _HEAD_BYTES))
    packed = _Packed(collection, Contents(collection, Environments(trust=trust)), int(max_mb * 1e6))
    unfinished = path.with_name(f"{path.name}.part")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            file.writelines(whole_page(packed.blocks()))
        unfinished.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # the file system may be read-only
            unfinished.unlink()
    return WrittenReport(len(collection.rows), len(packed.chunk_of), path.stat().st_size)


@dataclass
class _Packed:
    collection: Collection
    contents: Contents
    budget: int
    chunk_of: dict[str, int] = field(default_factory=dict)
    """Number of the chunk that holds a trajectory, by key."""
    chunks: int = 0

    def blocks(self) -> Iterator[str]:
        """Yield the chunks, then the head, which maps trajectories to chunks."""
        room, pending, size = self.budget, {}, 0
        for group in evenly(self.collection.groups()):
            if room <= 0:
                break
            for key, content in self.contents.of_group(group).items():
                pending[key] = text = json.dumps(content, allow_nan=False)
                size += len(text)
            if size >= _CHUNK:
                block = self._chunk(pending)
                room, pending, size = room - len(block), {}, 0
                yield block
        if pending:
            yield self._chunk(pending)
        yield _block("head", json.dumps(self._head(), allow_nan=False))

    def _chunk(self, contents: dict[str, str]) -> str:
        text = ",".join(f"{json.dumps(key)}:{content}" for key, content in contents.items())
        self.chunk_of |= dict.fromkeys(contents, self.chunks)
        self.chunks += 1
        return _block(f"chunk-{self.chunks - 1}", f"{{{text}}}")

    def _head(self) -> dict[str, Any]:
        head, rows = head_of(self.collection), self.collection.rows
        head["columns"]["chunk"] = [self.chunk_of.get(row["key"]) for row in rows]
        missing = len(rows) - len(self.chunk_of)
        note = (
            f"{missing} of {len(rows)} trajectories are listed without their contents, to limit the size of this file."
        )
        return {**head, "versus": all_versus(self.collection), "chunks": self.chunks, "note": note if missing else ""}


def evenly(items: list[Any]) -> Iterator[Any]:
    """Yield all items so that every prefix is spread evenly over the list."""
    bits = max(1, (len(items) - 1).bit_length())
    for count in range(1 << bits):
        place = int(f"{count:0{bits}b}"[::-1], 2)
        if place < len(items):
            yield items[place]


def _block(name: str, text: str) -> str:
    packed = base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
    return f'<script type="text/plain" id="{name}">{packed}</script>\n'
