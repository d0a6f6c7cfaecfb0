"""Samples from LoRA adapters as if they were part of the weights: unmerged, they more than double the time of a token.

The frozen weights are swapped for merged copies and put back as they were. Adding and subtracting in place would round
them a little at every step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


class Merged:
    """The merged weights of a model with LoRA adapters; for any other model, nothing.

    Adapters of a kind that is more than a sum of matrices (DoRA, quantised weights) stay as they are.
    """

    def __init__(self, model: Any):
        self._weights = [(layer, _merged(layer)) for layer in _plain_layers(model)]

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


def _plain_layers(model: Any) -> list[Any]:
    if not hasattr(model, "peft_config"):
        return []
    from peft.tuners.lora import Linear

    return [
        layer
        for layer in model.modules()
        if type(layer) is Linear
        and type(layer.base_layer) is torch.nn.Linear
        and not layer.lora_variant
        and not layer.disable_adapters
        and not layer.merged
        and not any(layer.lora_bias.values())
    ]


@torch.no_grad()
def _merged(layer: Any) -> torch.Tensor:
    weight = layer.base_layer.weight
    total = weight.float()
    for adapter in layer.active_adapters:
        if adapter in layer.lora_A:
            total = total + layer.get_delta_weight(adapter).float()
    return total.to(weight.dtype)
