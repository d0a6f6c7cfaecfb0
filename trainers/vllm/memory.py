"""The memory of an engine in a training process: its share of the GPU, and the episodes that its cache holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from agentgym.base.choices import count_of
from agentgym.trainers import ranks
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.cost.estimate import memory_share
from agentgym.trainers.cost.gpus import Gpu
from agentgym.trainers.cost.of_run import is_sharded, plan_of
from agentgym.trainers.cost.shapes import shape_of

_DEFAULT = 0.3
"""Share of memory where training cannot be estimated."""


def with_memory(config: TrainConfig, model_config: Any) -> TrainConfig:
    """Return the settings of a run with the share of memory for its engine, by default what training leaves."""
    if not config.use_vllm or config.vllm_memory is not None:
        return config
    shape = shape_of(model_config)
    if not torch.cuda.is_available() or shape is None:
        return replace(config, vllm_memory=_DEFAULT)
    gpu = Gpu("", torch.cuda.get_device_properties().total_memory, 0.0, 0.0)
    share = memory_share(plan_of(config, shape, gpu, ranks.world_size(), sharded=is_sharded()))
    return replace(config, vllm_memory=share)


def cache_tokens(engine: Any) -> int | None:
    """Return the tokens that an engine's cache holds; `None` if the engine does not report it."""
    cache = getattr(getattr(engine, "vllm_config", None), "cache_config", None)
    blocks, size = getattr(cache, "num_gpu_blocks", None), getattr(cache, "block_size", None)
    return blocks * size if blocks and size else None


def cache_text(tokens: int, context: int, at_once: int, share: float | None) -> str:
    """Return what an engine's cache holds, with a warning if the episodes of this process may not fit.

    Args:
        tokens: Tokens in the cache.
        context: Tokens of the longest episode.
        at_once: Maximum number of concurrent episodes of this process.
        share: The engine's share of memory, `None` on a CPU.
    """
    whole = tokens // context
    of = "" if share is None else f" at vllm_memory {share:g}"
    text = f"vLLM's cache holds {count_of(tokens, 'token')}{of}: {count_of(whole, 'whole episode')} of {context:,}"
    if whole >= at_once:
        return f"{text}; up to {at_once} run at once"
    warning = f"[yellow]{text}, but up to {at_once} run at once: long ones will wait for room.[/]"
    return f"{warning} Raise --vllm-memory, or lower --context or --max-in-flight"
