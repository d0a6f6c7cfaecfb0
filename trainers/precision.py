"""Chooses the precision of a model for evaluation and training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from agentgym.trainers.config import TrainConfig

_SMALL = 50_000_000
"""Below this many weights, matrix products are not the bottleneck, and bfloat16 gains nothing."""


def evaluation_dtype(model: str, device: str, **options: Any) -> torch.dtype:
    """Return the type of the weights for fast sampling at about the checkpoint's own precision.

    That is bfloat16 where the hardware supports it (serving engines choose it for float32 checkpoints, too). Otherwise
    it is the checkpoint's own type on a GPU, and float32 on a CPU, which only emulates other types.

    Args:
        model: A checkpoint's folder or name.
        device: `cuda` or `cpu`.
        options: Options of `from_pretrained`.
    """
    config = AutoConfig.from_pretrained(model, **options)
    own = getattr(config, "dtype", None) or torch.float32
    if own == torch.float16 and device == "cuda":
        return own
    if own == torch.float32 and count_weights(config) < _SMALL:
        return own
    if _is_bfloat16_fast(device):
        return torch.bfloat16
    return torch.float32 if device == "cpu" else own


def of_this_machine(config: TrainConfig, device: str) -> TrainConfig:
    """Turn bfloat16 off in a configuration if the machine only emulates it, which takes ten times as long."""
    return config if _is_bfloat16_fast(device) else replace(config, bf16=False)


def training_dtype(bf16: bool, lora_rank: int) -> torch.dtype:
    """Return the type of the weights of a model in training.

    If all weights are trained, they stay in float32 and only the arithmetic is bfloat16: at a learning rate of 1e-6,
    rounding would discard the update of a bfloat16 weight.
    """
    return torch.bfloat16 if bf16 and lora_rank else torch.float32


def loading(bf16: bool, lora_rank: int, model_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `from_pretrained` for a pretrained model in training, with those in `model_kwargs`."""
    options: dict[str, Any] = {"dtype": training_dtype(bf16, lora_rank), **model_kwargs}
    if isinstance(options["dtype"], str):
        options["dtype"] = getattr(torch, options["dtype"])
    return options


def count_weights(config: Any) -> int:
    """Return the number of weights of a model with this configuration (transformers), without loading it."""
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config).num_parameters()


def _is_bfloat16_fast(device: str) -> bool:
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, check, lambda: False)() for check in checks)
