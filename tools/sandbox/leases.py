"""The sandboxes that a server holds for its clients: so many at most, and none for a client that has gone silent."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from agentgym.errors import InfrastructureError

_CLOSING = 16
"""Sandboxes closed at one time when all are."""


class Held(Protocol):
    """What is leased: one sandbox, reached by frames."""

    workdir: str
    notes: str

    def exchange(self, frame: bytes, at_most: int) -> bytes:
        """Send one request frame and return the answer's, whose content may be `at_most` bytes."""
        ...

    def close(self) -> None:
        """End the sandbox, from any thread and also while an exchange is waiting."""
        ...


class Full(InfrastructureError):
    """As many sandboxes are open as the server allows."""


class TooManyForClient(InfrastructureError):
    """One client has as many sandboxes as it may."""


class LeaseBusy(Exception):
    """A sandbox is answering another request; it takes one at a time."""


class NoSuchLease(LookupError):
    """There is no such sandbox, or no longer."""


@dataclass
class _Lease:
    held: Held
    client: str
    kind: str
    seen: float
    busy: threading.Lock = field(default_factory=threading.Lock)


class Leases:
    """Every method may be called from any thread."""

    def __init__(
        self, *, at_most: int, silent_s: float, per_client: int | None = None, kinds: int | None = None
    ) -> None:
        self.silent_s = silent_s
        self.at_most = at_most
        self._per_client = at_most if per_client is None else per_client
        self._kinds = at_most if kinds is None else kinds
        self._leases: dict[str, _Lease] = {}
        # Who asked for which kind, of those that are being made.
        self._opening: list[tuple[str, str]] = []
        self._closed = False
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many sandboxes are open or being opened."""
        return len(self._leases) + len(self._opening)

    def has(self, name: str) -> bool:
        """Whether there is such a sandbox."""
        return name in self._leases

    def open(self, make: Callable[[], Held], *, client: str = "", kind: str = "") -> tuple[str, Held]:
        """Make a sandbox; return the id of its lease and the sandbox.

        Args:
            make: Makes it.
            client: Who asks for it.
            kind: What sandboxes must have in common to share what makes them.

        Raises:
            Full: If there are as many as may be, before anything is made.
            TooManyForClient: If this client has as many as it may.
        """
        asking = client, kind
        with self._lock:
            self._check_room(*asking)
            self._opening.append(asking)
        try:
            held = make()
        except BaseException:
            with self._lock:
                self._opening.remove(asking)
            raise
        name = secrets.token_hex(16)
        with self._lock:
            self._opening.remove(asking)
            if not self._closed:
                self._leases[name] = _Lease(held, client, kind, time.monotonic())
                return name, held
        held.close()
        raise Full("the server is stopping")

    def exchange(self, name: str, frame: bytes, at_most: int) -> bytes:
        """Pass one request on to a sandbox, which answers one at a time."""
        lease = self._find(name)
        if not lease.busy.acquire(blocking=False):
            raise LeaseBusy("this sandbox is answering another request")
        try:
            return lease.held.exchange(frame, at_most)
        finally:
            lease.busy.release()
            lease.seen = time.monotonic()

    def renew(self, names: Iterable[str]) -> list[str]:
        """Say that the client of these is still there; return those of them that are no longer open."""
        gone = []
        for name in names:
            try:
                self._find(name)
            except NoSuchLease:
                gone.append(name)
        return gone

    def close(self, name: str) -> None:
        """End a sandbox; one that has ended is fine."""
        with self._lock:
            lease = self._leases.pop(name, None)
        if lease is not None:
            lease.held.close()

    def close_silent(self) -> int:
        """End the sandboxes whose client has been silent for too long; return how many."""
        before = time.monotonic() - self.silent_s
        with self._lock:
            silent = [name for name, lease in self._leases.items() if lease.seen < before]
        for name in silent:
            self.close(name)
        return len(silent)

    def close_all(self) -> None:
        """End all sandboxes, many at a time, and let no new ones be opened."""
        with self._lock:
            self._closed = True
            names = list(self._leases)
        with ThreadPoolExecutor(_CLOSING, "agentgym-closing") as threads:
            list(threads.map(self.close, names))

    def _check_room(self, client: str, kind: str) -> None:
        if self._closed:
            raise Full("the server is stopping")
        held = [(lease.client, lease.kind) for lease in self._leases.values()] + self._opening
        if len(held) >= self.at_most:
            raise Full(f"the server allows {self.at_most} sandboxes at one time and all are taken; try again later")
        if sum(each == client for each, _ in held) >= self._per_client:
            raise TooManyForClient(f"one client may have {self._per_client} sandboxes at one time; close some")
        kinds = {each for _, each in held}
        if kind not in kinds and len(kinds) >= self._kinds:
            raise Full(f"the server allows {self._kinds} different workdirs at one time; use one of those in use")

    def _find(self, name: str) -> _Lease:
        with self._lock:
            lease = self._leases.get(name)
            if lease is None:
                raise NoSuchLease(name)
            lease.seen = time.monotonic()
            return lease
