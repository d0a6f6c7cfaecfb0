"""How much memory a cache may take."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import torch

_SHARE = 0.5
"""Share of the free memory that a cache may take: a pass needs room for itself, and the environments run beside it."""

_CGROUP = Path("/sys/fs/cgroup")
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


def cache_budget(device: torch.device) -> int:
    """Return the bytes that a cache may take on a device."""
    return int(_SHARE * (_free_on_gpu(device) if device.type == "cuda" else _free_on_machine()))


def give_back() -> None:
    """Return freed memory to the system.

    glibc keeps what many threads freed, in arenas of their own; over the steps of a run that came to several GB.
    """
    if _trim is not None:
        _trim(0)


def bytes_per_position(config: Any, dtype: torch.dtype) -> int:
    """Return the bytes that a model's cache takes for each position of each slot."""
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    layers = getattr(config, "per_layer_config", None) or [config] * config.num_hidden_layers
    return sum(map(_numbers_per_position, layers)) * dtype.itemsize


def _numbers_per_position(layer: Any) -> int:
    """Return how many numbers the keys and values of a position have in one layer, by its configuration."""
    heads = getattr(layer, "num_key_value_heads", None) or layer.num_attention_heads
    size = getattr(layer, "head_dim", None) or layer.hidden_size // layer.num_attention_heads
    rotated, plain = (getattr(layer, f"qk_{name}_head_dim", None) for name in ("rope", "nope"))  # of DeepSeek
    key = rotated + plain if rotated and plain else size
    return heads * (key + (getattr(layer, "v_head_dim", None) or size))


def _free_on_gpu(device: torch.device) -> int:
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + unused


def _free_on_machine() -> int:
    """Return the free memory of the machine or the container, whichever is less; 4 GiB if the system does not say."""
    found = [free for free in (_available(), _left_in_container()) if free is not None]
    return min(found, default=4 * 2**30)


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
