"""Measures how far the policy has moved from its start: the KL divergence on the tokens it has just sampled."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from agentgym.core.trajectory import Tokens
from agentgym.trainers.episode_numbers import EpisodeNumbers
from agentgym.trainers.logprobs import conversation_logprobs
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

    def divergence(self, model: Any, batch: SampledBatch) -> float | None:
        """Return the mean of `log p - log p_start` over sampled tokens, or `None` without a start to compare with.

        The policy drew these samples itself, so the mean estimates KL(p || p_start). All processes must call this.
        """
        start, context = self._at_start(model)
        if start is None:
            return None
        sampled = batch.tokens(_spread(batch.numbers))
        conversations = [tokens.prompt_ids + tokens.completion_ids for tokens in sampled]
        with context:
            scores = conversation_logprobs(start, conversations, temperature=self._temperature)
        gaps = [_gap(*pair) for pair in zip(sampled, scores, strict=True)]
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


def _gap(tokens: Tokens, scores: torch.Tensor) -> torch.Tensor:
    """Return `log p - log p_start` of each sampled token, from the scores of the start."""
    sampled = torch.tensor(tokens.loss_mask, dtype=torch.bool)
    return (torch.tensor(tokens.logprobs) - scores[len(tokens.prompt_ids) - 1 :])[sampled]
