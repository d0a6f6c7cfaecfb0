"""Assigns slots of the cache to conversations, and finds slots that already hold the start of a new conversation.

A slot keeps its content until another conversation takes it. Conversations with a common prefix (the attempts of a
group; all conversations with an environment's system prompt) therefore compute it once.
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
    """The ids of the cached keys and values."""
    session: str | None = None
    """The conversation that holds it."""


class Seating:
    """The slots of a cache.

    Args:
        limit: Largest number of slots.
    """

    def __init__(self, limit: int):
        self.limit = limit
        self._slots: list[CacheSlot] = []
        self._sessions: OrderedDict[str, CacheSlot] = OrderedDict()

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def taken(self) -> int:
        """Number of conversations with a slot."""
        return len(self._sessions)

    def take(self, session: str, ids: Sequence[int], busy: Container[str]) -> CacheSlot | None:
        """Return a slot for a conversation whose next turn has the prompt `ids`, or `None` if all slots are busy.

        That is its own slot, a free or new one, or that of the conversation that has been idle for longest.
        """
        slot = self._sessions.get(session) or self._free(ids) or self._new() or self._idle(busy)
        if slot is None:
            return None
        slot.session = session
        # The last token must always be computed: its output is the distribution of the next one.
        del slot.tokens[common(slot.tokens, ids[:-1]) :]
        self._sessions[session] = slot
        self._sessions.move_to_end(session)
        return slot

    def release(self, session: str) -> None:
        """Free the slot of a conversation, if it has one."""
        if (slot := self._sessions.pop(session, None)) is not None:
            slot.session = None

    def forget(self) -> None:
        """Free all slots and forget their contents."""
        self._slots, self._sessions = [], OrderedDict()

    def shrink(self, limit: int) -> list[str]:
        """Keep only the first `limit` slots; return the conversations of the others."""
        self.limit = limit
        lost = [slot.session for slot in self._slots[limit:] if slot.session is not None]
        for session in lost:
            self.release(session)
        del self._slots[limit:]
        return lost

    def donor(self, slot: CacheSlot, ids: Sequence[int]) -> tuple[CacheSlot, int]:
        """Return the slot with the longest common prefix with `ids`, by default `slot` itself, and that length."""
        best, most = slot, len(slot.tokens)
        for other in self._slots:
            if other.tokens[: most + 1] == ids[: most + 1] and (held := common(other.tokens, ids[:-1])) > most:
                best, most = other, held
        return best, most

    def _free(self, ids: Sequence[int]) -> CacheSlot | None:
        """Return the first free slot with the longest common prefix with `ids`."""
        free = [slot for slot in self._slots if slot.session is None]
        return max(free, key=lambda slot: common(slot.tokens, ids), default=None)

    def _new(self) -> CacheSlot | None:
        if len(self._slots) >= self.limit:
            return None
        self._slots.append(CacheSlot(len(self._slots)))
        return self._slots[-1]

    def _idle(self, busy: Container[str]) -> CacheSlot | None:
        for session in self._sessions:
            if session not in busy:
                return self._sessions.pop(session)
        return None


def common(first: Sequence[object], second: Sequence[object]) -> int:
    """Return the length of the common prefix of two sequences."""
    low, high = 0, min(len(first), len(second))
    if first[:high] == second[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
