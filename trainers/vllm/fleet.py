"""Replicas of a vLLM server: assigns conversations to them, and tracks which are down."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from agentgym.retrying import doubled_s

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 15.0


@dataclass
class Replica:
    """One server."""

    url: str
    failures: int = 0
    """Failures since its last answer."""
    retry_at: float = 0.0
    """If it is down, the time of the next check, in seconds of the event loop's clock."""

    @property
    def is_down(self) -> bool:
        """Whether its last answer was a failure."""
        return self.failures > 0


class ReplicaFleet:
    """Keeps each conversation at one replica, whose prefix cache then holds the earlier turns.

    Args:
        urls: The URLs of the replicas, at least one.
    """

    def __init__(self, urls: list[str]):
        self.replicas = [Replica(url) for url in urls]
        self._at: dict[str, Replica] = {}
        self._jitter = random.Random(0)

    def replica_of(self, session: str) -> Replica | None:
        """Return the replica of a conversation, by default the least busy one. `None` if all are down."""
        replica = self._at.get(session)
        if replica is not None and not replica.is_down:
            return replica
        busy = Counter(replica.url for replica in self._at.values())
        up = [replica for replica in self.replicas if not replica.is_down]
        if not up:
            return None
        self._at[session] = min(up, key=lambda replica: busy[replica.url])
        return self._at[session]

    def release(self, session: str) -> None:
        """Forget a conversation."""
        self._at.pop(session, None)

    def failed(self, replica: Replica, now: float) -> None:
        """Mark a replica as down: its conversations move, and it is checked again after a pause."""
        replica.failures += 1
        pause = doubled_s(_FIRST_PAUSE_S, replica.failures - 1, _LONGEST_PAUSE_S)
        replica.retry_at = now + pause * self._jitter.uniform(0.5, 1.0)

    def answered(self, replica: Replica) -> None:
        """Mark a replica as up."""
        replica.failures = 0

    def due(self, now: float) -> list[Replica]:
        """Return the replicas that are down and due for a check."""
        return [replica for replica in self.replicas if replica.is_down and replica.retry_at <= now]
