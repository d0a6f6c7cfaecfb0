"""The plan of a run: what the cost model needs to know of its settings."""

from __future__ import annotations

import os

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.cost.estimate import Plan, StepWork
from agentgym.trainers.cost.gpus import Gpu
from agentgym.trainers.cost.shapes import ModelShape

_LAUNCHED = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")


def is_sharded() -> bool:
    """Whether the launcher has asked for sharded weights."""
    return any(os.environ.get(name, "").lower() in ("1", "true") for name in _LAUNCHED)


def plan_of(config: TrainConfig, shape: ModelShape, gpu: Gpu, gpus: int, *, sharded: bool) -> Plan:
    """Return the plan of a run that trains and samples on the same GPUs."""
    share = config.batch // config.updates_per_step // gpus
    return Plan(
        shape=shape,
        gpu=gpu,
        gpus=gpus,
        lora_rank=config.lora_rank,
        micro_batch=max(1, min(config.micro_batch or share, share)),
        context=config.context,
        checkpointing=config.gradient_checkpointing,
        sharded=sharded,
        updates=config.updates_per_step,
        copies=0 if config.lora_rank else config.track_kl + (config.kl_weight > 0),
    )


def longest_episodes(config: TrainConfig) -> StepWork:
    """Return the episodes of a step if all of them fill the context: a fifth of it the prompt, two thirds sampled."""
    prompt, turn = config.context // 5, max(2, config.max_new_tokens * 3 // 2)
    turns = max(1, (config.context - prompt) // turn)
    return StepWork(config.batch, prompt, turns, config.max_new_tokens, turn - config.max_new_tokens)
