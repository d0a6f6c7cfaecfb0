"""LoRA adapters: their configuration, a model that has them, and the model beneath."""

from __future__ import annotations

from typing import Any

import torch

from agentgym.errors import require


def lora(rank: int, alpha: int) -> Any:
    """Return the configuration of adapters on all linear layers but the head.

    Args:
        rank: Rank of the adapters.
        alpha: Their output is multiplied by `alpha / rank`.
    """
    require("peft", "train")
    from peft import LoraConfig

    return LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear", task_type="CAUSAL_LM")


def with_adapters(model: Any, rank: int, alpha: int, seed: int) -> Any:
    """Return the model with fresh adapters, which are float32; the global random state does not change."""
    config = lora(rank, alpha)
    from peft import get_peft_model

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return get_peft_model(model, config)


def without_adapters(model: Any) -> Any:
    """Return the model of transformers that has the adapters; a model without adapters itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model
