"""How fast a run could learn: the operations for the episodes of its model, and the peak of its devices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from agentgym.trainers import ranks
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.cost.gpus import gpu_of
from agentgym.trainers.cost.shapes import ModelShape, shape_of


@dataclass(frozen=True)
class LearningSpeed:
    """The operations that a model needs, and those that its devices could do."""

    shape: ModelShape | None = None
    """Of the model; `None` if it is not known."""
    lora_rank: int = 0
    peak_flops: float | None = None
    """Of all devices per second; `None` if it is not known."""

    def learning_flops(self, lengths: Iterable[int]) -> float:
        """Return the operations for learning once from episodes of these lengths, without recomputed activations."""
        if self.shape is None:
            return 0.0
        return sum(length * self.shape.learning_flops(length / 2, self.lora_rank) for length in lengths)


def speed_of(config: TrainConfig, model_config: Any) -> LearningSpeed:
    """Return the speed of a run in bfloat16 on GPUs, empty on other devices.

    Args:
        config: The settings of the run.
        model_config: The model's configuration (transformers).
    """
    if not config.bf16 or not torch.cuda.is_available() or (gpu := gpu_of(torch.cuda.get_device_name())) is None:
        return LearningSpeed()
    return LearningSpeed(shape_of(model_config), config.lora_rank, gpu.flops * ranks.world_size())
