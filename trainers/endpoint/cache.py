"""Keeps answers on disk, so that a run that is repeated pays only for what is new."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from agentgym.errors import UsageError


class AnswerCache:
    """A folder of answers. Several processes may use it at once.

    Args:
        folder: The folder; made if need be.

    Raises:
        UsageError: The folder cannot be made.
    """

    def __init__(self, folder: str | Path):
        self._folder = Path(folder).expanduser()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"the endpoint's cache {str(folder)!r} cannot be made: {error.strerror}") from error

    def key(self, url: str, request: bytes, seed: int) -> str:
        """Return the key of a request by a player with `seed`, which differs between attempts."""
        return hashlib.sha256(b"\0".join((url.encode(), str(seed).encode(), request))).hexdigest()

    def get(self, key: str) -> bytes | None:
        """Return the kept answer, if any."""
        try:
            return self._path(key).read_bytes()
        except OSError:
            return None

    def put(self, key: str, answer: bytes) -> None:
        """Keep an answer. Raises `UsageError` if it cannot be written."""
        path = self._path(key)
        try:
            path.parent.mkdir(exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
                file.write(answer)
            os.replace(file.name, path)
        except OSError as error:
            raise UsageError(
                f"the endpoint's cache {str(self._folder)!r} cannot be written: {error.strerror}"
            ) from error

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key[2:]}.json"
