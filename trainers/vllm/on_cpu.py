"""What vLLM needs before it can train and sample in one process on a CPU. Nothing in this file concerns GPUs.

vLLM's CPU backend is made for serving. It packs weights so that no later update can reach them, binds threads to cores,
compiles small functions for half a minute, and cannot cut a prompt in two if the turn has a seed of its own.
"""

from __future__ import annotations

import os
from typing import Any

import torch

_ENVIRONMENT = {
    # The engine must live in this process, where the weights are.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # Training and the environments need the cores too.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}

_SMALLEST_CACHE = 64 * 2**20
"""Bytes of cache that every engine gets."""


def is_needed() -> bool:
    """Whether vLLM would run on the CPU."""
    return not torch.cuda.is_available()


def prepare() -> None:
    """Prepare this process for an engine; call before the engine is made."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    _keep_weights_reachable()
    # Without a compiler's help, an engine of a small model starts within seconds instead of minutes.
    torch._dynamo.config.disable = True  # type: ignore[attr-defined]


def settings(model_config: Any, *, dtype: str, context: int, at_once: int, share: float) -> dict[str, Any]:
    """Return arguments of `vllm.LLM` in addition to those for every device.

    Args:
        model_config: The model's configuration (transformers).
        dtype: The engine's precision, such as `float32`.
        context: Longest conversation, in tokens.
        at_once: Conversations to hold at the same time.
        share: Largest share of the machine's memory for the cache.
    """
    return {
        "enforce_eager": True,
        # A prompt that is cut rewinds its turn's generator, which PyTorch's CPU generators cannot do.
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(4096, context),
        "kv_cache_memory_bytes": _cache_bytes(model_config, dtype, context, at_once, share),
    }


def _cache_bytes(config: Any, dtype: str, context: int, at_once: int, share: float) -> int:
    """Return the size of a cache that holds all conversations; on a CPU, vLLM would take the whole share."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    per_token = 2 * config.num_hidden_layers * heads * width * (4 if dtype == "float32" else 2)
    # vLLM divides the cache into blocks of 128 tokens; each conversation leaves one of them half empty.
    wanted = at_once * (context + 128) * per_token
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(_SMALLEST_CACHE, min(wanted, int(share * memory)))


def _keep_weights_reachable() -> None:
    """Make vLLM's linear layers use their weights as loaded, so that updates of the weights take effect.

    Otherwise the layers compute with packed copies, and the first update fails for want of a `weight_loader`.
    """
    from vllm import _custom_ops  # type: ignore[import-not-found]
    from vllm.model_executor.layers import utils  # type: ignore[import-not-found]

    _custom_ops._supports_onednn = False
    utils.check_cpu_sgl_kernel = lambda *shape: False
