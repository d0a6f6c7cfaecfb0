"""Annotations of trajectories, appended to a file next to theirs, by id and kind.

The trajectories themselves are never changed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from agentgym.base.errors import UsageError
from agentgym.base.json_lines import MAX_LINE, is_whole, mend_last_line, parse_line

SCHEMA_VERSION = 1
_BEGINNING = f'{{"schema": {SCHEMA_VERSION}, "id": '.encode()
"""How a line begins, as `Annotation.to_dict` orders it."""


@dataclass(frozen=True)
class Annotation:
    """Information about one trajectory."""

    id: str
    """The trajectory's id."""
    training_step: int | None
    """The trajectory's training step; ids are unique within a step."""
    kind: str
    """`credit`, `gates`, `trainer_logprobs`, `grade`, or any other name."""
    data: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the annotation as JSON data."""
        return {"schema": SCHEMA_VERSION, **vars(self)}


class Annotations:
    """The annotations of a trajectory file. They stay on disk; only their positions are in memory.

    Args:
        path: The trajectory file; its annotations are next to it (`eval.jsonl.notes`).

    Raises:
        UsageError: The annotations cannot be read; the message names the place.
    """

    def __init__(self, path: str | Path):
        path = Path(path)
        self.file = path.with_name(f"{path.name}.notes")
        self._places: dict[tuple[str, int | None], dict[str, tuple[int, int]]] = {}
        self._end = 0
        self.refresh()

    def refresh(self) -> int:
        """Read the annotations added since, and return their number."""
        added = 0
        try:
            with self.file.open("rb") if self.file.is_file() else nullcontext() as file:
                if file is None:
                    return 0
                if file.seek(0, os.SEEK_END) < self._end:  # another file
                    self._places, self._end = {}, 0
                file.seek(self._end)
                while (line := file.readline(MAX_LINE)).endswith(b"\n") or (line and is_whole(line)):
                    added += self._note(line)
                    self._end += len(line)
        except OSError as error:
            raise UsageError(f"cannot read {str(self.file)!r}: {error.strerror or error}") from error
        return added

    def of(self, id: str, training_step: int | None = None) -> dict[str, dict[str, Any]]:
        """Return the annotations of a trajectory by kind. Of several of one kind, the last one counts.

        Raises:
            UsageError: The file has changed since it was read.
        """
        places = self._places.get((id, training_step), {})
        if not places:
            return {}
        try:
            with self.file.open("rb") as file:
                return {kind: _data_at(file, place) for kind, place in places.items()}
        except (OSError, ValueError, KeyError) as error:
            raise UsageError(f"{str(self.file)!r} has changed since it was read; open it again") from error

    def add(self, annotations: Iterable[Annotation]) -> None:
        """Append annotations.

        Raises:
            UsageError: The file cannot be written, or an annotation is not JSON data; then none is written.
        """
        try:
            lines = [json.dumps(annotation.to_dict(), allow_nan=False) for annotation in annotations]
        except (TypeError, ValueError) as error:
            raise UsageError(f"an annotation must be JSON data: {error}") from error
        try:
            mend_last_line(self.file, _BEGINNING)
            with self.file.open("ab", buffering=0) as file:
                file.write("".join(f"{line}\n" for line in lines).encode())
        except OSError as error:
            raise UsageError(f"cannot write {str(self.file)!r}: {error.strerror or error}") from error
        self.refresh()

    def _note(self, line: bytes) -> bool:
        if not line.strip():
            return False
        with suppress(ValueError, KeyError, TypeError):
            annotation = parse_line(line)
            if annotation.get("schema") == SCHEMA_VERSION and type(annotation["data"]) is dict:
                key = annotation["id"], annotation["training_step"]
                self._places.setdefault(key, {})[sys.intern(annotation["kind"])] = (self._end, len(line))
                return True
        raise UsageError(f"{self.file}: the line at byte {self._end} is not an annotation of this release")


def _data_at(file: BinaryIO, place: tuple[int, int]) -> dict[str, Any]:
    file.seek(place[0])
    return parse_line(file.read(place[1]))["data"]
