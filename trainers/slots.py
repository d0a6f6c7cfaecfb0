"""A key/value cache of independent rows ("slots"), each filled to its own length.

Rows join and leave a batch at any step, so finished rows make room for waiting ones. Works with every transformers
decoder that accepts a cache, position ids and a four-dimensional attention mask.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin


class _Layer(CacheLayerMixin):
    """Keys and values of one model layer: `(slots, heads, length + 1, head_dim)`. The last column is for padding."""

    is_sliding = False

    def __init__(self, slots: int, length: int):
        super().__init__()
        self._slots, self._length = slots, length
        self.rows = torch.empty(0, dtype=torch.long)
        self.positions = torch.empty(0, dtype=torch.long)
        self.visible = 0
        self.is_leading = False

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate the whole cache with the shape and type of the first keys and values."""
        heads, size = key_states.shape[1], self._length + 1
        self.keys = key_states.new_zeros(self._slots, heads, size, key_states.shape[-1])
        self.values = value_states.new_zeros(self._slots, heads, size, value_states.shape[-1])
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write `(rows, heads, chunk, head_dim)` at the positions set by `aim`; return all that the rows may see."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None
        assert self.values is not None
        rows = self.rows[:, None]
        self.keys[rows, :, self.positions] = key_states.transpose(1, 2)
        self.values[rows, :, self.positions] = value_states.transpose(1, 2)
        seen = slice(len(self.rows)) if self.is_leading else self.rows
        return self.keys[seen, :, : self.visible], self.values[seen, :, : self.visible]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the length and the offset of the visible part."""
        return self.visible, 0

    def get_seq_length(self) -> int:
        """Return 0: every row has its own length, and callers always pass positions."""
        return 0

    def get_max_length(self) -> int:
        """Return the largest length of a row."""
        return self._length


class SlotCache(Cache):
    """A cache for `slots` rows of at most `length` tokens."""

    def __init__(self, layers: int, slots: int, length: int):
        super().__init__(layers=[_Layer(slots, length) for _ in range(layers)])
        self.length = length

    def aim(self, rows: torch.Tensor, positions: torch.Tensor, visible: int) -> None:
        """Set where the next forward pass writes.

        Args:
            rows: Slot of each row of the batch, `(rows,)`.
            positions: Position of each token of the chunk, `(rows, chunk)`; `length` for padding.
            visible: Number of positions that the pass may attend to.
        """
        # Slots 0 to n-1 in order are a view of the cache; any other choice of rows needs a copy.
        is_leading = bool((rows == torch.arange(len(rows), device=rows.device)).all())
        for layer in self.layers:
            assert isinstance(layer, _Layer)
            layer.rows, layer.positions, layer.visible = rows, positions, visible
            layer.is_leading = is_leading
