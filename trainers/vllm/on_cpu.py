"""Workarounds for training and sampling with vLLM in one process on a CPU. Nothing in this file concerns GPUs.

vLLM's CPU backend is made for serving. It packs weights, which later updates cannot reach, binds threads to cores,
compiles small functions for half a minute, and cannot split a prompt of a request with a seed.
"""

from __future__ import annotations

import os
from typing import Any

import torch

_ENVIRONMENT = {
    # The engine must share this process with the weights.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # Training and the environments need the cores too.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}

SHARE = 0.3
"""Default largest share of memory for the cache of an engine in a training process."""
_SMALLEST_CACHE = 64 * 2**20
"""Minimum bytes of an engine's cache."""


def is_needed() -> bool:
    """Whether vLLM would run on the CPU."""
    return not torch.cuda.is_available()


def prepare() -> None:
    """Prepare this process; call before creating an engine."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    _keep_weights_reachable()
    # Uncompiled, an engine of a small model starts within seconds instead of minutes.
    torch._dynamo.config.disable = True  # type: ignore[attr-defined]


def settings(model_config: Any, *, dtype: str, context: int, at_once: int, share: float) -> dict[str, Any]:
    """Return arguments of `vllm.LLM` in addition to those for every device.

    Args:
        model_config: The model's configuration (transformers).
        dtype: The engine's precision, such as `float32`.
        context: Longest conversation, in tokens.
        at_once: Maximum number of concurrent conversations.
        share: Maximum share of the machine's memory for the cache.
    """
    return {
        "enforce_eager": True,
        # Splitting a prompt rewinds its generator, which PyTorch's CPU generators cannot do.
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(4096, context),
        "kv_cache_memory_bytes": _cache_bytes(model_config, dtype, context, at_once, share),
    }


def _cache_bytes(config: Any, dtype: str, context: int, at_once: int, share: float) -> int:
    """Return the size of a cache for all conversations; by default, vLLM would take the whole share."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    per_token = 2 * config.num_hidden_layers * heads * width * (4 if dtype == "float32" else 2)
    # vLLM divides the cache into blocks of 128 tokens; each conversation leaves one of them half empty.
    needed = at_once * (context + 128) * per_token
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(_SMALLEST_CACHE, min(needed, int(share * memory)))


def _keep_weights_reachable() -> None:
    """Make vLLM's linear layers use their weights as loaded, so that weight updates take effect.

    Otherwise the layers compute with packed copies, and the first update fails without a `weight_loader`.
    """
    from vllm import _custom_ops  # type: ignore[import-not-found]
    from vllm.model_executor.layers import utils  # type: ignore[import-not-found]

    _custom_ops._supports_onednn = False
    utils.check_cpu_sgl_kernel = lambda *shape: False
