"""A cache that is as large as the conversations that are played, within a budget of memory."""

from __future__ import annotations

from typing import Any

from agentgym.trainers.memory import bytes_per_position, cache_budget
from agentgym.trainers.slots import SlotCache

_STRIDE = 64
"""The cache grows by multiples of this many positions."""


class GrowingCache:
    """A cache within a budget of memory: as many slots and positions as its conversations need."""

    def __init__(self, model: Any, budget: int | None, context: int, *, keeps: bool = True):
        self.slots = SlotCache(model.config.get_text_config().num_hidden_layers if keeps else 0)
        self._context = context
        self._each = bytes_per_position(model.config, model.dtype) if keeps else 0
        self._budget = cache_budget(model.device) if budget is None else budget
        self._positions = 0

    def slots_for(self, positions: int) -> int:
        """Return how many slots there may be if one of them has this many positions; at least one."""
        return max(1, self._budget // max(1, self._each * max(positions, self._positions)))

    def lengthen(self, positions: int) -> None:
        """Have at least this many positions from the next pass on, and some to spare, since growing copies."""
        if positions > self._positions:
            spare = min(self._context, self._positions + self._positions // 4)
            self._positions = max(spare, -(-positions // _STRIDE) * _STRIDE)

    def widen(self, slots: int) -> None:
        """Have at least this many slots, and some to spare."""
        now = self.slots.size[0]
        if slots > now:
            now = max(slots, min(2 * now, self.slots_for(0)))
        self.slots.reserve(now, self._positions)
