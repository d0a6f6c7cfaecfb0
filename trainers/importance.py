"""Corrects the loss of each token for the difference between the policy that sampled it and the trainer's.

The two round differently. With adapters in bfloat16, for example, the sampler computes with merged weights, and the
trainer adds the adapters' output to that of the frozen weights. The weight `min(pi / mu, 3)` of a token is truncated
importance sampling ("On the Rollout-Training Mismatch in Modern RL Systems", openreview.net/forum?id=xsonlP8DRV). TRL
has it as "token_truncate", for vLLM only and with one more forward pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

_LARGEST = 3.0
"""The largest weight of a token."""


def importance_weights(trainer: torch.Tensor, sampler: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the weight of each token, `min(pi / mu, 3)`, and 1 where the mask is 0.

    Args:
        trainer: The trainer's log-probabilities, `(rows, completion tokens)`, with the weights that sampled the tokens.
        sampler: The sampler's; NaN where it reported none, whose weight is 1.
        mask: 1 at sampled tokens.
    """
    difference = torch.nan_to_num((trainer - sampler).float(), nan=0.0).where(mask.bool(), 0.0)
    return difference.exp().clamp(max=_LARGEST)


class SamplerGap:
    """Differences between the sampler's and the trainer's log-probabilities of sampled tokens, under TRL's names."""

    def __init__(self) -> None:
        self._gaps: list[torch.Tensor] = []
        self._weights: list[torch.Tensor] = []

    def add(self, trainer: torch.Tensor, sampler: torch.Tensor, weights: torch.Tensor, mask: torch.Tensor) -> None:
        """Add some rows; all arguments are `(rows, completion tokens)`, and the mask is 1 at sampled tokens."""
        sampled = mask.bool()
        self._gaps.append((trainer - sampler).abs()[sampled].float().cpu())
        self._weights.append(weights[sampled].cpu())

    def take(self, gather: Callable[[list[Any]], list[Any]]) -> dict[str, float | None]:
        """Return the metrics since the last call: differences in nats, and weights. Empty without tokens.

        Args:
            gather: Concatenates the lists of all processes. All processes must call this.
        """
        gaps, weights = (torch.cat([torch.zeros(0), *parts]) for parts in (self._gaps, self._weights))
        self._gaps, self._weights = [], []
        own = [(*_numbers(gaps), *_numbers(weights))] if len(gaps) else []
        if not (parts := gather(own)):
            return {}
        counts, gap_sums, _, gap_maxima, _, weight_sums, weight_minima, weight_maxima = zip(*parts, strict=True)
        metrics = {
            "sampling/sampling_logp_difference/mean": sum(gap_sums) / sum(counts),
            "sampling/sampling_logp_difference/max": max(gap_maxima),
            "sampling/importance_sampling_ratio/min": min(weight_minima),
            "sampling/importance_sampling_ratio/mean": sum(weight_sums) / sum(counts),
            "sampling/importance_sampling_ratio/max": max(weight_maxima),
        }
        return {name: None if math.isnan(value) else value for name, value in metrics.items()}


def _numbers(values: torch.Tensor) -> tuple[int, float, float, float]:
    """Return the count, the sum, the least and the largest of some values."""
    return len(values), values.sum().item(), values.min().item(), values.max().item()
