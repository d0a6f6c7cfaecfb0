"""The sandboxes that a server holds for its clients: so many at most, and none for a client that has gone silent."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from agentgym.errors import InfrastructureError


class Held(Protocol):
    """What is leased: one sandbox, reached by frames."""

    workdir: str
    notes: str

    def exchange(self, frame: bytes) -> bytes:
        """Send one request frame and return the answer's."""
        ...

    def close(self) -> None:
        """End the sandbox, from any thread and also while an exchange is waiting."""
        ...


class Full(InfrastructureError):
    """As many sandboxes are open as the server allows."""


class NoSuchLease(LookupError):
    """There is no such sandbox, or no longer."""


@dataclass
class _Lease:
    held: Held
    seen: float
    busy: threading.Lock = field(default_factory=threading.Lock)


class Leases:
    """Every method may be called from any thread."""

    def __init__(self, *, at_most: int, silent_s: float) -> None:
        self.silent_s = silent_s
        self.at_most = at_most
        self._leases: dict[str, _Lease] = {}
        self._opening = 0
        self._closed = False
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many sandboxes are open or being opened."""
        return len(self._leases) + self._opening

    def open(self, make: Callable[[], Held]) -> tuple[str, Held]:
        """Make a sandbox; return the id of its lease and the sandbox.

        Raises:
            Full: If there are as many as may be, before anything is made.
        """
        with self._lock:
            if self._closed or len(self) >= self.at_most:
                raise Full(f"the server allows {self.at_most} sandboxes at one time and all are taken; try again later")
            self._opening += 1
        try:
            held = make()
        except BaseException:
            with self._lock:
                self._opening -= 1
            raise
        name = secrets.token_hex(16)
        with self._lock:
            self._opening -= 1
            if not self._closed:
                self._leases[name] = _Lease(held, time.monotonic())
                return name, held
        held.close()
        raise Full("the server is stopping")

    def exchange(self, name: str, frame: bytes) -> bytes:
        """Pass one request on to a sandbox. One at a time is served; others wait."""
        lease = self._find(name)
        with lease.busy:
            try:
                return lease.held.exchange(frame)
            finally:
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
        """End all sandboxes and let no new ones be opened."""
        with self._lock:
            self._closed = True
            names = list(self._leases)
        for name in names:
            self.close(name)

    def _find(self, name: str) -> _Lease:
        with self._lock:
            lease = self._leases.get(name)
            if lease is None:
                raise NoSuchLease(name)
            lease.seen = time.monotonic()
            return lease
