"""Which conversation has which slot of the cache, and which slots already hold the start of a new conversation.

A slot keeps what it computed until another conversation takes it. So conversations that begin alike (the attempts of a
group; all those of an environment, with its system prompt) compute their common beginning once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Sequence
from dataclasses import dataclass, field


@dataclass(eq=False)
class CacheSlot:
    """A slot of the cache."""

    slot: int
    tokens: list[int] = field(default_factory=list)
    """The ids whose keys and values it holds."""
    session: str | None = None
    """The conversation that has it."""


class Seating:
    """The slots of a cache.

    Args:
        limit: Largest number of slots.
    """

    def __init__(self, limit: int):
        self.limit = limit
        self._seats: list[CacheSlot] = []
        self._sessions: OrderedDict[str, CacheSlot] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seats)

    @property
    def taken(self) -> int:
        """How many conversations have a slot."""
        return len(self._sessions)

    def take(self, session: str, ids: Sequence[int], busy: Container[str]) -> CacheSlot | None:
        """Return the slot of a conversation that goes on with `ids`: its own, a free or new one, or one of an idle one.

        Idle conversations give up their slots in the order of their last turns. If all are busy, return `None`.
        """
        seat = self._sessions.get(session) or self._free(ids) or self._new() or self._idle(busy)
        if seat is None:
            return None
        seat.session = session
        # The last token must run in any case: its output is the distribution of the next one.
        del seat.tokens[common(seat.tokens, ids[:-1]) :]
        self._sessions[session] = seat
        self._sessions.move_to_end(session)
        return seat

    def release(self, session: str) -> None:
        """Free the slot of a conversation, if it has one."""
        if (seat := self._sessions.pop(session, None)) is not None:
            seat.session = None

    def forget(self) -> None:
        """Free all slots, and take nothing to be known that they hold."""
        self._seats, self._sessions = [], OrderedDict()

    def shrink(self, limit: int) -> list[str]:
        """Keep only the first `limit` slots; return the conversations that have lost theirs."""
        self.limit = limit
        lost = [seat.session for seat in self._seats[limit:] if seat.session is not None]
        for session in lost:
            self.release(session)
        del self._seats[limit:]
        return lost

    def donor(self, seat: CacheSlot, ids: Sequence[int]) -> tuple[CacheSlot, int]:
        """Return the slot that holds most of the beginning of `ids`, and how much; `seat` itself if none holds more."""
        best, most = seat, len(seat.tokens)
        for other in self._seats:
            if other.tokens[: most + 1] == ids[: most + 1] and (held := common(other.tokens, ids[:-1])) > most:
                best, most = other, held
        return best, most

    def _free(self, ids: Sequence[int]) -> CacheSlot | None:
        """Return the free slot that holds most of the beginning of `ids`; among equals, the first."""
        free = [seat for seat in self._seats if seat.session is None]
        return max(free, key=lambda seat: common(seat.tokens, ids), default=None)

    def _new(self) -> CacheSlot | None:
        if len(self._seats) >= self.limit:
            return None
        self._seats.append(CacheSlot(len(self._seats)))
        return self._seats[-1]

    def _idle(self, busy: Container[str]) -> CacheSlot | None:
        for session in self._sessions:
            if session not in busy:
                return self._sessions.pop(session)
        return None


def common(some: Sequence[object], others: Sequence[object]) -> int:
    """Return how many items (tokens, characters) two sequences have in common at their beginning."""
    low, high = 0, min(len(some), len(others))
    if some[:high] == others[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if some[low:middle] == others[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
