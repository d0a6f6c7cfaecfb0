"""The sandboxes that a server keeps for its clients: a limited number, closed when their client goes silent."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from agentgym.base.errors import InfrastructureError

_CLOSING = 16
"""Sandboxes closed concurrently by `close_all`."""


class LeasedSandbox(Protocol):
    """One leased sandbox, which exchanges frames."""

    workdir: str
    notes: str

    def exchange(self, frame: bytes, at_most: int) -> bytes:
        """Send one request frame and return the answer frame, with at most `at_most` bytes of content."""
        ...

    def close(self) -> None:
        """Kill the sandbox, from any thread, even while an exchange is waiting."""
        ...


class ServerFull(InfrastructureError):
    """The server's limit of open sandboxes is reached."""


class TooManyForClient(InfrastructureError):
    """A client's limit of open sandboxes is reached."""


class LeaseBusy(Exception):
    """The sandbox is answering another request; it handles one at a time."""


class NoSuchLease(LookupError):
    """The sandbox does not exist, or no longer exists."""


@dataclass
class _Lease:
    held: LeasedSandbox
    client: str
    kind: str
    last_used: float
    busy: threading.Lock = field(default_factory=threading.Lock)


class Leases:
    """A server's open sandboxes. Thread-safe."""

    def __init__(
        self, *, at_most: int, silent_s: float, per_client: int | None = None, kinds: int | None = None
    ) -> None:
        self.silent_s = silent_s
        self.at_most = at_most
        self._per_client = at_most if per_client is None else per_client
        self._kinds = at_most if kinds is None else kinds
        self._leases: dict[str, _Lease] = {}
        # Client and kind of each sandbox that is being created.
        self._opening: list[tuple[str, str]] = []
        self._closed = False
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many sandboxes are open or being opened."""
        return len(self._leases) + len(self._opening)

    def has(self, name: str) -> bool:
        """Whether this sandbox exists."""
        return name in self._leases

    def open(self, make: Callable[[], LeasedSandbox], *, client: str = "", kind: str = "") -> tuple[str, LeasedSandbox]:
        """Create a sandbox; return the lease's id and the sandbox.

        Args:
            make: Creates it.
            client: The client's address.
            kind: Sandboxes of the same kind share a zygote.

        Raises:
            ServerFull: If the server's limit is reached, before anything is created.
            TooManyForClient: If this client's limit is reached.
        """
        client_kind = client, kind
        with self._lock:
            self._check_room(*client_kind)
            self._opening.append(client_kind)
        try:
            held = make()
        except BaseException:
            with self._lock:
                self._opening.remove(client_kind)
            raise
        name = secrets.token_hex(16)
        with self._lock:
            self._opening.remove(client_kind)
            if not self._closed:
                self._leases[name] = _Lease(held, client, kind, time.monotonic())
                return name, held
        held.close()
        raise ServerFull("the server is stopping")

    def exchange(self, name: str, frame: bytes, at_most: int) -> bytes:
        """Forward one request to a sandbox, which handles one at a time."""
        lease = self._find(name)
        if not lease.busy.acquire(blocking=False):
            raise LeaseBusy("this sandbox is answering another request")
        try:
            return lease.held.exchange(frame, at_most)
        finally:
            lease.busy.release()
            lease.last_used = time.monotonic()

    def renew(self, names: Iterable[str]) -> list[str]:
        """Note that the client of these sandboxes is alive; return the ids that are no longer open."""
        closed = []
        for name in names:
            try:
                self._find(name)
            except NoSuchLease:
                closed.append(name)
        return closed

    def close(self, name: str) -> None:
        """Close a sandbox; does nothing if it is closed."""
        with self._lock:
            lease = self._leases.pop(name, None)
        if lease is not None:
            lease.held.close()

    def close_silent(self) -> int:
        """Close the sandboxes whose client has been silent for too long; return how many."""
        before = time.monotonic() - self.silent_s
        with self._lock:
            silent = [name for name, lease in self._leases.items() if lease.last_used < before]
        for name in silent:
            self.close(name)
        return len(silent)

    def close_all(self) -> None:
        """Close all sandboxes, many at a time, and refuse new ones."""
        with self._lock:
            self._closed = True
            names = list(self._leases)
        with ThreadPoolExecutor(_CLOSING, "agentgym-closing") as threads:
            list(threads.map(self.close, names))

    def _check_room(self, client: str, kind: str) -> None:
        if self._closed:
            raise ServerFull("the server is stopping")
        held = [(lease.client, lease.kind) for lease in self._leases.values()] + self._opening
        if len(held) >= self.at_most:
            raise ServerFull(f"all of the server's {self.at_most} sandboxes are in use; try again later")
        if sum(holder == client for holder, _ in held) >= self._per_client:
            raise TooManyForClient(f"a client may have {self._per_client} sandboxes open at a time; close some")
        kinds = {held_kind for _, held_kind in held}
        if kind not in kinds and len(kinds) >= self._kinds:
            raise ServerFull(f"the server allows {self._kinds} different workdirs at a time; use one of those in use")

    def _find(self, name: str) -> _Lease:
        with self._lock:
            lease = self._leases.get(name)
            if lease is None:
                raise NoSuchLease(name)
            lease.last_used = time.monotonic()
            return lease
