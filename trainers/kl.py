"""Measures how far the policy has moved from its start: the KL divergence on the tokens it has just sampled."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from agentgym.core.trajectory import Tokens
from agentgym.trainers.episode_numbers import EpisodeNumbers
from agentgym.trainers.sampled_batch import SampledBatch

_SAMPLE = 16
"""Number of trajectories to measure the divergence on."""


class StartingPolicy:
    """The weights as they were before training.

    Args:
        model: The model at its start.
        use_copy: Keep a copy of the weights. LoRA needs none: the adapters can be switched off.
        temperature: The sampling temperature.
    """

    def __init__(self, model: Any, *, use_copy: bool, temperature: float = 1.0):
        self._temperature = temperature
        self._copy = copy.deepcopy(model).eval().requires_grad_(False) if use_copy else None

    @torch.no_grad()  # not `inference_mode`, whose tensors FSDP would keep in the buffers of the model that learns
    def divergence(self, model: Any, batch: SampledBatch) -> float | None:
        """Return the mean of `log p - log p_start` over sampled tokens, or `None` without a start to compare with.

        The policy drew these samples itself, so the mean estimates KL(p || p_start). All processes must call this.
        """
        start, context = self._at_start(model)
        if start is None:
            return None
        with context:
            gaps = [_gap(start, tokens, self._temperature) for tokens in batch.tokens(_spread(batch.numbers))]
        return torch.cat(gaps).mean().item() if gaps else None

    def _at_start(self, model: Any) -> tuple[Any, AbstractContextManager[Any]]:
        if self._copy is not None:
            return self._copy.to(model.device), nullcontext()
        if hasattr(model, "disable_adapter"):
            return model, model.disable_adapter()
        return None, nullcontext()


def _spread(episodes: Sequence[EpisodeNumbers]) -> list[int]:
    """Return the positions of some episodes with sampled tokens, spread evenly over the batch."""
    usable = [position for position, episode in enumerate(episodes) if episode.sampled_tokens]
    return usable[:: max(1, len(usable) // _SAMPLE)][:_SAMPLE]


def _gap(start: Any, tokens: Tokens, temperature: float) -> torch.Tensor:
    """Return `log p - log p_start` of each sampled token."""
    first = len(tokens.prompt_ids)
    ids = torch.tensor([tokens.prompt_ids + tokens.completion_ids], device=start.device)
    logits = start(input_ids=ids).logits[0, first - 1 : -1].float() / temperature
    logprobs = torch.log_softmax(logits, dim=-1).gather(1, ids[0, first:, None])[:, 0].cpu()
    sampled = torch.tensor(tokens.loss_mask, dtype=torch.bool)
    return (torch.tensor(tokens.logprobs) - logprobs)[sampled]
