"""A growing key/value cache of independent rows ("slots"), each with its own length.

A pass writes its new tokens into their slots. A packed pass (`agentgym.trainers.packing`) then attends to the whole
cache; any other transformers decoder that accepts a cache, position ids and a four-dimensional attention mask sees the
filled part of one slot.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from agentgym.trainers.packing import Pass

_STRIDE = 64
"""The cache grows by multiples of this many positions."""
_SHARE = 0.5
"""Share of the free memory for a cache. Passes and environments need the rest."""

_CGROUP = Path("/sys/fs/cgroup")
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


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
        # Zeros instead of uninitialised memory: hidden positions have weight 0, but NaN times 0 is NaN.
        self.keys, self.values = (
            states.new_zeros(self.size[0], states.shape[1], self.size[1], states.shape[-1])
            for states in (key_states, value_states)
        )
        self.is_initialized = True

    def reserve(self, slots: int, positions: int) -> None:
        """Change the size and keep the content that fits."""
        self.size = (slots, positions)
        if self.is_initialized:
            self.keys, self.values = (_resized(held, slots, positions) for held in (self.keys, self.values))

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write `(1, heads, tokens, head_dim)` as planned; return the cache, or the visible part for a single row."""
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
        """Return the filled length of a single row, or 0 for packed rows, which have different lengths."""
        if not self.alone or self.plan is None:
            return 0
        [row] = self.plan.rows
        return row.filled

    def get_max_length(self) -> int:
        """Return the largest length of a row."""
        return self.size[1]


class SlotCache(Cache):
    """A cache of slots for a model with `layers` layers."""

    def __init__(self, layers: int):
        super().__init__(layers=[_Layer() for _ in range(layers)])
        self.size = (0, 0)
        """Slots, and positions of each."""

    def reserve(self, slots: int, positions: int) -> None:
        """Change the size and keep the content that fits."""
        if (slots, positions) != self.size:
            self.size = (slots, positions)
            for layer in self._own_layers():
                layer.reserve(slots, positions)

    def aim(self, plan: Pass, *, alone: bool) -> None:
        """Set where the next forward pass writes.

        Args:
            plan: The pass.
            alone: The pass has one row, and the model uses its own attention.
        """
        for layer in self._own_layers():
            layer.plan, layer.alone = plan, alone

    def copy(self, source: int, target: int, positions: slice) -> None:
        """Copy some positions of one slot to another."""
        for layer in self._own_layers():
            for held in (layer.keys, layer.values):
                if held is not None:
                    held[target, :, positions] = held[source, :, positions]

    def _own_layers(self) -> list[_Layer]:
        return [layer for layer in self.layers if isinstance(layer, _Layer)]


def _resized(held: torch.Tensor | None, slots: int, positions: int) -> torch.Tensor:
    assert held is not None
    fresh = held.new_zeros(slots, held.shape[1], positions, held.shape[3])
    common = (slice(min(slots, held.shape[0])), slice(None), slice(min(positions, held.shape[2])))
    fresh[common] = held[common]
    return fresh


class GrowingCache:
    """A cache that grows with its conversations, within a memory budget."""

    def __init__(self, model: Any, budget: int | None, context: int, *, keeps: bool = True):
        self.slots = SlotCache(model.config.get_text_config().num_hidden_layers if keeps else 0)
        self._context = context
        self._position_bytes = bytes_per_position(model.config, model.dtype) if keeps else 0
        self._budget = cache_budget(model.device) if budget is None else budget
        self._positions = 0

    def slots_for(self, positions: int) -> int:
        """Return the maximum number of slots, at least one, if the longest has this many positions."""
        return max(1, self._budget // max(1, self._position_bytes * max(positions, self._positions)))

    def lengthen(self, positions: int) -> None:
        """Have at least this many positions from the next pass on, and some spare ones, since growing copies."""
        if positions > self._positions:
            spare = min(self._context, self._positions + self._positions // 4)
            self._positions = max(spare, -(-positions // _STRIDE) * _STRIDE)

    def widen(self, slots: int) -> None:
        """Have at least this many slots, and some spare ones."""
        now = self.slots.size[0]
        if slots > now:
            now = max(slots, min(2 * now, self.slots_for(0)))
        self.slots.reserve(now, self._positions)


def cache_budget(device: torch.device) -> int:
    """Return the memory budget of a cache on a device, in bytes."""
    return int(_SHARE * (_free_on_gpu(device) if device.type == "cuda" else _free_on_machine()))


def give_back() -> None:
    """Return freed memory to the system.

    glibc keeps freed memory in arenas per thread; over the steps of a run, that adds up to several GB.
    """
    if _trim is not None:
        _trim(0)


def bytes_per_position(config: Any, dtype: torch.dtype) -> int:
    """Return the bytes of a model's cache per position and slot."""
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    layers = getattr(config, "per_layer_config", None) or [config] * config.num_hidden_layers
    return sum(map(_numbers_per_position, layers)) * dtype.itemsize


def _numbers_per_position(layer: Any) -> int:
    """Return the count of key and value numbers per position in one layer, from its configuration."""
    heads = getattr(layer, "num_key_value_heads", None) or layer.num_attention_heads
    size = getattr(layer, "head_dim", None) or layer.hidden_size // layer.num_attention_heads
    rotated, plain = (getattr(layer, f"qk_{name}_head_dim", None) for name in ("rope", "nope"))  # of DeepSeek
    key = rotated + plain if rotated and plain else size
    return heads * (key + (getattr(layer, "v_head_dim", None) or size))


def _free_on_gpu(device: torch.device) -> int:
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + unused


def _free_on_machine() -> int:
    """Return the free memory of the machine or the container, whichever is less; 4 GiB if unknown."""
    sizes = [free for free in (_available(), _left_in_container()) if free is not None]
    return min(sizes, default=4 * 2**30)


def _available() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


def _left_in_container() -> int | None:
    try:
        limit, used = ((_CGROUP / name).read_text(encoding="ascii") for name in ("memory.max", "memory.current"))
        return max(0, int(limit) - int(used))
    except (OSError, ValueError):  # no limit is the word "max"
        return None
