"""The weights that the engine samples from: those of the trainer, and merged copies of those that have adapters.

The trainer's own weights never change: merging adapters into bfloat16 weights and subtracting them again rounds twice.
After 200 times, the frozen weights have moved by a share of the adapters' own effect
(`benchmarks/results/lora_base_unchanged.json`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from agentgym.base.errors import UsageError
from agentgym.trainers.adapters import mergeable_layers, merged_weight, unmergeable_layer, whole

_OF_ADAPTERS = re.compile(r"\.(lora_\w+|original_module)\.")
"""Parameters that the engine does not have. `original_module` was replaced by a copy that is trained."""

_WRAPPERS = re.compile(r"^base_model\.model\.|\b(base_layer|modules_to_save\.default|_checkpoint_wrapped_module)\.")
"""Parts of a parameter's name that stem from adapters and checkpointing."""

Gathered = Callable[[Sequence[torch.nn.Parameter]], AbstractContextManager[Any]]


def engine_weights(model: Any, gathered: Gathered) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the weights one at a time, each whole and under its name in the engine; tied weights once.

    All processes must iterate, since gathering a sharded weight is collective.

    Args:
        model: A model in training, with or without LoRA adapters, sharded or not.
        gathered: A context in which parameters are whole, for ZeRO-3.

    Raises:
        UsageError: Adapters of a layer cannot be merged into a copy.
    """
    if (name := unmergeable_layer(model)) is not None:
        raise UsageError(
            f"the adapters of {name} cannot be merged into a copy of its weight for vLLM: only LoRA on linear layers "
            "that are not quantised can; set use_vllm: false"
        )
    layers = {id(layer.base_layer.weight): layer for layer in mergeable_layers(model)}
    for name, parameter in model.named_parameters():
        if _OF_ADAPTERS.search(name):
            continue
        layer = layers.get(id(parameter))
        with gathered([parameter] if layer is None else list(layer.parameters())):
            yield _WRAPPERS.sub("", name), whole(parameter) if layer is None else merged_weight(layer)
