"""The connections of a server, and which of them gives way when there are too many or they hold too much."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Protocol

from agentgym.tools.serving.patience import Patience

_SWEEP_S = 0.5


class Member(Protocol):
    """A connection, as the crowd sees it."""

    peer: str
    held_bytes: int
    """Bytes kept for this connection because its client has not yet sent or read the rest."""

    def is_overdue(self, now: float) -> bool:
        """Whether the client has made the server wait for too long."""
        ...

    def time_out(self) -> None:
        """Say so to the client, if that is still possible, and end the connection."""
        ...

    def drop(self) -> None:
        """End the connection at once."""
        ...


class Crowd:
    """All connections of one server. For the event loop's thread only.

    A connection is *waited for* while the server can do nothing until its client sends or reads something. Only such
    connections give way to others, those of the address with the most connections first and of these the one that has
    been waited for longest. So neither half-open connections nor one greedy address can keep others out, and a client
    that sends its request at once is never dropped. There is no fixed number per address, as behind a proxy or a tunnel
    all clients have the same.
    """

    def __init__(self, patience: Patience) -> None:
        self.patience = patience
        self.held_bytes = 0
        self._members: set[Member] = set()
        self._peers: Counter[str] = Counter()
        # A dict, as it keeps the order in which the waiting began.
        self._waited_for: dict[Member, None] = {}
        self._sweeping = False

    def __len__(self) -> int:
        return len(self._members)

    def join(self, member: Member) -> bool:
        """Take in a new connection; false if there is no room and none can give way."""
        if len(self._members) >= self.patience.connections:
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
        """Forget a connection that has ended."""
        if member not in self._members:
            return
        self._members.discard(member)
        self._waited_for.pop(member, None)
        self.hold(member, 0)
        self._peers[member.peer] -= 1
        if not self._peers[member.peer]:
            del self._peers[member.peer]

    def wait_for(self, member: Member) -> None:
        """Note that from now on a client is waited for."""
        if member in self._members:
            self._waited_for.pop(member, None)
            self._waited_for[member] = None

    def work_for(self, member: Member) -> None:
        """Note that a client is no longer waited for, but the client for the server."""
        self._waited_for.pop(member, None)
        if member.held_bytes:
            self.hold(member, 0)

    def hold(self, member: Member, size: int) -> None:
        """Note how much is kept for a connection; if it is too much for all together, others give way."""
        self.held_bytes += size - member.held_bytes
        member.held_bytes = size
        while size and self.held_bytes > self.patience.held_bytes:
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
