"""How fast a run could learn: the operations for a token of its model, and the peak of its devices."""

from __future__ import annotations

from typing import Any

import torch

from agentgym.trainers import ranks
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.cost.gpus import gpu_of
from agentgym.trainers.cost.shapes import shape_of
from agentgym.trainers.logbook.phases import Work


def speed_of(config: TrainConfig, model_config: Any) -> Work:
    """Return the operations for a token, and the bfloat16 peak of all devices if it is known.

    Each token is taken to attend to a quarter of the context. Recomputed activations do not count.

    Args:
        config: The settings of the run.
        model_config: The model's configuration (transformers).
    """
    shape = shape_of(model_config)
    if shape is None or not config.bf16 or not torch.cuda.is_available():
        return Work()
    gpu = gpu_of(torch.cuda.get_device_name())
    peak = None if gpu is None else gpu.flops * ranks.world_size()
    return Work(flops_per_token=shape.learning_flops(config.context / 4, config.lora_rank), peak_flops=peak)
