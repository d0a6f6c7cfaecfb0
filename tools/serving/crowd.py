"""A server's connections, and which of them to drop when there are too many or they use too much memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Protocol

from agentgym.tools.serving.limits import ConnectionLimits

_SWEEP_S = 0.5


class Member(Protocol):
    """A connection in a crowd."""

    peer: str
    held_bytes: int
    """Bytes buffered because the client has not yet sent or read the rest."""

    def is_overdue(self, now: float) -> bool:
        """Whether the client has exceeded its deadline."""
        ...

    def time_out(self) -> None:
        """Close the connection, with a timeout error if one can still be sent."""
        ...

    def drop(self) -> None:
        """Close the connection immediately."""
        ...


class Crowd:
    """All connections of a server. Use only in the event loop's thread.

    The server *waits for* a connection when it can do nothing until the client sends or reads something. Only such
    connections are dropped, starting with the address that has the most of them and, within it, with the one waited
    for longest. So neither half-open connections nor one greedy address can lock others out, and a client that sends
    its request promptly is never dropped. There is no fixed limit per address, because all clients behind a proxy or a
    tunnel share one address.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.held_bytes = 0
        self._members: set[Member] = set()
        self._peers: Counter[str] = Counter()
        # A dict keeps the order in which waiting started.
        self._waited_for: dict[Member, None] = {}
        self._sweeping = False

    def __len__(self) -> int:
        return len(self._members)

    def join(self, member: Member) -> bool:
        """Add a connection; false if there is no room and none can be dropped."""
        if len(self._members) >= self.limits.connections:
            victim = self._first_to_give_way()
            if victim is None:
                return False
            self._end(victim)
        self._members.add(member)
        self._peers[member.peer] += 1
        self._waited_for[member] = None
        if not self._sweeping:
            self._sweeping = True
            asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)
        return True

    def leave(self, member: Member) -> None:
        """Remove a closed connection."""
        if member not in self._members:
            return
        self._members.discard(member)
        self._waited_for.pop(member, None)
        self.hold(member, 0)
        self._peers[member.peer] -= 1
        if not self._peers[member.peer]:
            del self._peers[member.peer]

    def wait_for(self, member: Member) -> None:
        """Note that the server now waits for this client."""
        if member in self._members:
            self._waited_for.pop(member, None)
            self._waited_for[member] = None

    def work_for(self, member: Member) -> None:
        """Note that the client now waits for the server."""
        self._waited_for.pop(member, None)
        if member.held_bytes:
            self.hold(member, 0)

    def hold(self, member: Member, size: int) -> None:
        """Record a connection's buffered bytes; drop others if the total is too large."""
        self.held_bytes += size - member.held_bytes
        member.held_bytes = size
        while size and self.held_bytes > self.limits.held_bytes:
            self._end(next((each for each in self._waited_for if each.held_bytes), member))
            if member not in self._members:
                return

    def _first_to_give_way(self) -> Member | None:
        peer = max(self._peers, key=self._peers.__getitem__, default="")
        longest = next(iter(self._waited_for), None)
        return next((each for each in self._waited_for if each.peer == peer), longest)

    def _end(self, member: Member) -> None:
        self.leave(member)
        member.drop()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for member in [each for each in self._members if each.is_overdue(now)]:
            member.time_out()
        self._sweeping = bool(self._members)
        if self._sweeping:
            loop.call_later(_SWEEP_S, self._sweep)
