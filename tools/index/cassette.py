"""Records answers of external services in one SQLite file and replays them byte for byte.

It is a cache for live search and, in the mode "replay", makes training on live search repeatable.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from agentgym.base.errors import InfrastructureError, UsageError

_BUSY_S = 30.0


class CassetteMode(StrEnum):
    """When to send live requests."""

    AUTO = "auto"
    """Only for requests that are not recorded."""
    RECORD = "record"
    """Always; replaces earlier recordings."""
    REPLAY = "replay"
    """Never; an unrecorded request is an `InfrastructureError`."""


@dataclass(frozen=True)
class RecordedAnswer:
    """An answer: JSON metadata and the body."""

    about: Mapping[str, Any]
    body: bytes = b""


class Cassette:
    """A file of requests and answers. Safe for threads and processes; picklable.

    Args:
        path: The file. It is created by the first recording.
        mode: When to send live requests.
    """

    def __init__(self, path: Path | str, mode: CassetteMode | str = CassetteMode.AUTO) -> None:
        self.path = Path(path).absolute()
        try:
            self.mode = CassetteMode(mode)
        except ValueError:
            raise UsageError(f"a cassette's mode is one of {', '.join(CassetteMode)}, not {mode!r}") from None
        if self.mode is CassetteMode.REPLAY and not self.path.is_file():
            raise UsageError(f"no cassette {str(self.path)!r} to replay; record one first")
        self._renew()

    def ask(self, request: Mapping[str, Any], live: Callable[[], RecordedAnswer]) -> RecordedAnswer:
        """Return the recorded answer to a request, or call `live` and record its answer.

        Args:
            request: JSON values that identify the request. It is stored, so it must not contain secrets.
            live: Sends the live request. Its exceptions are not recorded.

        Raises:
            InfrastructureError: The mode is "replay" and the request is not recorded.
        """
        text = json.dumps(request, sort_keys=True, ensure_ascii=False)
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        if self.mode is not CassetteMode.RECORD and (stored := self._read(key)):
            return stored
        if self.mode is CassetteMode.REPLAY:
            raise InfrastructureError(f"the cassette {self.path.name!r} has no answer to {text}; record it first")
        with self._one_at_a_time(key):
            if self.mode is CassetteMode.AUTO and (stored := self._read(key)):
                return stored
            self._write(key, text, live())
            # If another process has recorded an answer meanwhile, use that one.
            recorded = self._read(key)
            assert recorded
            return recorded

    def __len__(self) -> int:
        """Return the number of recorded answers."""
        with self._connected() as connection:
            return connection.execute("SELECT count(*) FROM answers").fetchone()[0]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def _one_at_a_time(self, key: str) -> Iterator[None]:
        """Let threads with the same request wait for the one that sends it."""
        with self._lock:
            lock, waiting = self._asking.get(key, (threading.Lock(), 0))
            self._asking[key] = (lock, waiting + 1)
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, waiting = self._asking.pop(key)
                if waiting > 1:
                    self._asking[key] = (lock, waiting - 1)

    def _read(self, key: str) -> RecordedAnswer | None:
        with self._connected() as connection:
            row = connection.execute("SELECT about, body FROM answers WHERE key = ?", (key,)).fetchone()
        return RecordedAnswer(json.loads(row[0]), zlib.decompress(row[1])) if row else None

    def _write(self, key: str, request: str, answer: RecordedAnswer) -> None:
        row = (key, _writable(request), json.dumps(answer.about, sort_keys=True), zlib.compress(answer.body))
        verb = "REPLACE" if self.mode is CassetteMode.RECORD else "IGNORE"
        with self._connected() as connection, connection:
            connection.execute(f"INSERT OR {verb} INTO answers VALUES (?, ?, ?, ?)", row)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Yield this process's only connection."""
        with self._lock:
            try:
                if self._connection is None or self._process != os.getpid():
                    self._connection, self._process = self._opened(), os.getpid()
                yield self._connection
            except sqlite3.Error as error:
                raise InfrastructureError(f"the cassette {str(self.path)!r} cannot be used: {error}") from error

    def _opened(self) -> sqlite3.Connection:
        if self.mode is CassetteMode.REPLAY:
            return sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True, check_same_thread=False)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=_BUSY_S, check_same_thread=False)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS answers "
            "(key TEXT PRIMARY KEY, request TEXT NOT NULL, about TEXT NOT NULL, body BLOB NOT NULL)"
        )
        return connection

    def _renew(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._asking: dict[str, tuple[threading.Lock, int]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "mode": self.mode}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._renew()


def _writable(text: str) -> str:
    """Return text that SQLite can store, without lone surrogates."""
    return text.encode("utf-8", "replace").decode()
