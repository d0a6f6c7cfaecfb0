"""Forward passes of a model of transformers over conversations, with and without a cache."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch

from agentgym.trainers.lora import without_adapters
from agentgym.trainers.packing import Pass, packed
from agentgym.trainers.slots import SlotCache
from agentgym.trainers.versions import cache_argument


def run(model: Any, cache: SlotCache, plan: Pass, *, alone: bool = False) -> torch.Tensor:
    """Run a pass that continues what a cache holds; return the last logits of each row, `(rows, vocabulary)`.

    Args:
        model: The model.
        cache: Its cache.
        plan: The pass.
        alone: It has one row, and the model attends to it by itself.
    """
    cache.aim(plan, alone=alone)
    arguments = {
        "input_ids": plan.ids[None],
        "position_ids": plan.positions[None],
        **cache_argument(without_adapters(model), cache),
        "use_cache": True,
        "logits_to_keep": plan.last,
    }
    # Without a mask from here, a model makes its own: of windows, chunks or whatever else its layers see.
    with nullcontext() if alone else packed(model):
        return model(**arguments, **({} if alone else {"plan": plan})).logits[0]


def run_whole(model: Any, ids: Sequence[int]) -> torch.Tensor:
    """Run a pass over a whole conversation; return its last logits, `(1, vocabulary)`."""
    given = torch.tensor([list(ids)], device=model.device)
    return model(input_ids=given, use_cache=False, logits_to_keep=1).logits[0, -1:]
