"""LoRA adapters: configuration, attaching, merging and loading from folders."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from agentgym.base.errors import UsageError, require

_CONFIGURATION = "adapter_config.json"


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
    """Return the model with new float32 adapters. Leaves the global random state unchanged."""
    config = lora(rank, alpha)
    from peft import get_peft_model

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return get_peft_model(model, config)


def without_adapters(model: Any) -> Any:
    """Return the transformers model under the adapters, or the model itself if it has none."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


class MergedWeights:
    """Copies of a model's weights with its LoRA adapters merged in, for sampling. Empty for a model without adapters.

    Unmerged adapters more than double the time per token. The frozen weights are swapped for merged copies and then
    restored: merging and unmerging in place would add a rounding error at every step.

    Adapters that are not a plain sum of matrices (DoRA, quantised weights) stay unmerged.
    """

    def __init__(self, model: Any):
        self._weights = [(layer, merged_weight(layer)) for layer in mergeable_layers(model)]

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Use the merged weights."""
        frozen = [layer.base_layer.weight.data for layer, _ in self._weights]
        try:
            for layer, weight in self._weights:
                layer.base_layer.weight.data = weight
                layer.merged_adapters = list(layer.active_adapters)
            yield
        finally:
            for (layer, _), weight in zip(self._weights, frozen, strict=True):
                layer.base_layer.weight.data = weight
                layer.merged_adapters = []


def mergeable_layers(model: Any) -> list[Any]:
    """Return the layers with LoRA adapters that `merged_weight` accepts."""
    if not hasattr(model, "peft_config"):
        return []
    return [layer for layer in model.modules() if _is_mergeable(layer)]


def unmergeable_layer(model: Any) -> str | None:
    """Return the name of a layer with adapters that `merged_weight` does not accept, if there is one."""
    if not hasattr(model, "peft_config"):
        return None
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = ((name, layer) for name, layer in model.named_modules() if isinstance(layer, BaseTunerLayer))
    return next((name for name, layer in layers if not _is_mergeable(layer)), None)


def _is_mergeable(layer: Any) -> bool:
    """Whether a layer's adapters are active, and a plain sum of products of two matrices."""
    from peft.tuners.lora import Linear

    return (
        type(layer) is Linear
        and type(layer.base_layer) is torch.nn.Linear
        and not layer.lora_variant
        and not layer.disable_adapters
        and not layer.merged
        and not any(layer.lora_bias.values())
    )


@torch.no_grad()
def merged_weight(layer: Any) -> torch.Tensor:
    """Return a layer's weight with its adapters added in float32, as a new tensor of the weight's type."""
    weight = whole(layer.base_layer.weight)
    total = weight.float()
    for adapter in layer.active_adapters:
        if adapter in layer.lora_A:
            a, b = whole(layer.lora_A[adapter].weight).float(), whole(layer.lora_B[adapter].weight).float()
            total = total + b @ a * layer.scaling[adapter]
    return total.to(weight.dtype)


@torch.no_grad()
def whole(parameter: torch.Tensor) -> torch.Tensor:
    """Return a parameter without its history; one that FSDP 2 has sharded is gathered from all processes."""
    if isinstance(parameter, DTensor):
        sharded: Any = parameter.to(parameter.device_mesh.device_type)  # offloaded weights are on the CPU
        return sharded.full_tensor()
    return parameter.detach()


def base_of(model: str) -> str | None:
    """Return the folder or name of the base model of the adapters in a folder.

    Returns `None` if the folder has no adapters, or also contains the model.

    Raises:
        UsageError: The adapters do not name their base model.
    """
    path = Path(model) / _CONFIGURATION
    if not path.is_file() or _has_weights(path.parent):
        return None
    try:
        base = json.loads(path.read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (OSError, ValueError, TypeError, KeyError):
        base = None
    if not isinstance(base, str) or not base:
        raise UsageError(
            f"{path} does not say which model its adapters belong to (base_model_name_or_path); put them into their "
            "model (merge_and_unload of peft), and save that with its tokenizer"
        )
    return base


def _has_weights(folder: Path) -> bool:
    """Whether a folder contains model weights, not only adapters. Some trainers copy just the configuration there."""
    return any(folder.glob("model*.safetensors")) or any(folder.glob("pytorch_model*.bin"))


def merged(model: Any, folder: str) -> Any:
    """Return a model with the adapters of a folder merged into its weights.

    `name_or_path` becomes the folder: the name of the base model would point servers, and adapters trained on top of
    this model, to the wrong weights.
    """
    require("peft", "train")
    from peft import PeftModel

    whole = PeftModel.from_pretrained(model, folder).merge_and_unload()
    whole.name_or_path = folder
    return whole
