"""A key/value cache of independent rows ("slots"), each filled to its own length. It grows as conversations need it.

A pass writes its new tokens into their slots. A packed pass (`agentgym.trainers.packing`) then attends to the cache as
it is; any other transformers decoder that accepts a cache, position ids and a four-dimensional attention mask sees the
filled part of one slot.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from agentgym.trainers.packing import Pass


class _Layer(CacheLayerMixin):
    """Keys and values of one model layer: `(slots, heads, positions, head_dim)`."""

    is_sliding = False

    def __init__(self) -> None:
        super().__init__()
        self.size = (0, 0)
        self.plan: Pass | None = None
        self.alone = False

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate the reserved size with the shape and type of the first keys and values."""
        # Zeros, not whatever memory holds: hidden positions count 0 times their values, and NaN times 0 is NaN.
        self.keys, self.values = (
            states.new_zeros(self.size[0], states.shape[1], self.size[1], states.shape[-1])
            for states in (key_states, value_states)
        )
        self.is_initialized = True

    def reserve(self, slots: int, positions: int) -> None:
        """Change the size; what fits stays."""
        self.size = (slots, positions)
        if self.is_initialized:
            self.keys, self.values = (_resized(held, slots, positions) for held in (self.keys, self.values))

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write `(1, heads, tokens, head_dim)` as the plan says; return the cache, or what a row alone may see."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None
        assert self.values is not None
        assert self.plan is not None
        self.keys[self.plan.slots, :, self.plan.written] = key_states[0].transpose(0, 1)
        self.values[self.plan.slots, :, self.plan.written] = value_states[0].transpose(0, 1)
        if not self.alone:
            return self.keys, self.values
        [row] = self.plan.rows
        return self.keys[row.slot, None, :, : row.end], self.values[row.slot, None, :, : row.end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the length and the offset of the visible part."""
        assert self.plan is not None
        return max(row.end for row in self.plan.rows), 0

    def get_seq_length(self) -> int:
        """Return how long the row of a pass is that has it alone; else 0: every row has its own length."""
        if not self.alone or self.plan is None:
            return 0
        [row] = self.plan.rows
        return row.filled

    def get_max_length(self) -> int:
        """Return the largest length of a row."""
        return self.size[1]


class SlotCache(Cache):
    """A cache of slots for a model with this many layers."""

    def __init__(self, layers: int):
        super().__init__(layers=[_Layer() for _ in range(layers)])
        self.size = (0, 0)
        """Slots, and positions of each."""

    def reserve(self, slots: int, positions: int) -> None:
        """Change the size; what fits stays."""
        if (slots, positions) != self.size:
            self.size = (slots, positions)
            for layer in self._each():
                layer.reserve(slots, positions)

    def aim(self, plan: Pass, *, alone: bool) -> None:
        """Set where the next forward pass writes.

        Args:
            plan: The pass.
            alone: It has one row, and the model attends to it by itself.
        """
        for layer in self._each():
            layer.plan, layer.alone = plan, alone

    def copy(self, source: int, target: int, positions: slice) -> None:
        """Copy what one slot holds at some positions to another."""
        for layer in self._each():
            for held in (layer.keys, layer.values):
                if held is not None:
                    held[target, :, positions] = held[source, :, positions]

    def _each(self) -> list[_Layer]:
        return [layer for layer in self.layers if isinstance(layer, _Layer)]


def _resized(held: torch.Tensor | None, slots: int, positions: int) -> torch.Tensor:
    assert held is not None
    fresh = held.new_zeros(slots, held.shape[1], positions, held.shape[3])
    kept = (slice(min(slots, held.shape[0])), slice(None), slice(min(positions, held.shape[2])))
    fresh[kept] = held[kept]
    return fresh
