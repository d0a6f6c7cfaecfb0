"""Draws tokens from logits."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch


def draw(
    logits: torch.Tensor, temperature: float, generators: Sequence[random.Random]
) -> tuple[list[int], list[float]]:
    """Draw a token from each row: invert its distribution at a number from the row's own generator.

    Args:
        logits: `(rows, vocabulary)`.
        temperature: 0 takes the likeliest token.
        generators: One for each row.

    Returns:
        The tokens and their log-probabilities, NaN where a row's are not numbers.
    """
    logits = logits.float()
    logprobs = torch.log_softmax(logits / temperature if temperature > 0 else logits, dim=-1)
    if temperature > 0:
        points = torch.tensor([[generator.random()] for generator in generators])
        cumulative = logprobs.exp().cumsum(dim=-1)
        points = points.to(logits.device) * cumulative[:, -1:]
        chosen = torch.searchsorted(cumulative, points, right=True).clamp_(max=logits.shape[-1] - 1)
    else:
        chosen = logprobs.argmax(dim=-1, keepdim=True)
    return chosen[:, 0].tolist(), logprobs.gather(1, chosen)[:, 0].tolist()
