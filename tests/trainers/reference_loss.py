"""The loss of an update, from its formulas, in plain PyTorch: without padding or batches, one conversation at a time.

- Clipped ratios: `grpo` (arXiv 2402.03300), `dapo` (2503.14476), `dr_grpo` (2503.20783), `luspo` (2602.05261), `bnpo`.
- Other weights of a token's gradient: `cispo` (2506.13585), `sapo` (2511.20347), `vespo` (2602.10693).
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

OBSERVED = (40, 41)
"""Tokens between turns, which are not sampled."""
STEP_WEIGHT, OPENS_AT = 0.3, 0.5
"""Pay of a good step, in episodes with at least this outcome."""


@dataclass(frozen=True)
class Episode:
    """An episode as the loss sees it."""

    group: int
    prompt: tuple[int, ...]
    sampled: tuple[tuple[int, ...], ...]
    """The tokens of each turn."""
    outcome: float
    steps: tuple[float, ...]
    """Whether each turn was a good step."""
    failed: bool = False
    truncated: bool = False
    """Whether its last turn was cut off by a limit, and the episode with it."""

    @property
    def completion(self) -> list[tuple[int, int | None]]:
        """Its tokens after the prompt, each with the turn that sampled it."""
        tokens: list[tuple[int, int | None]] = []
        for turn, ids in enumerate(self.sampled):
            tokens += [(token, turn) for token in ids]
            if turn < len(self.sampled) - 1:
                tokens += [(token, None) for token in OBSERVED]
        return tokens


@dataclass(frozen=True)
class Settings:
    """Settings of a loss, named as in `TrainConfig`."""

    credit: str = "outcome"
    loss: str = "dapo"
    train_on_truncated: bool = True
    kl_weight: float = 0.0
    entropy_weight: float = 0.0
    temperature: float = 1.0
    updates_per_step: int = 1
    context: int = 256
    clip_low: float = 0.2
    clip_high: float = 0.28


GROUPS, SIZE = 5, 4


def episodes(common: int, flat: Sequence[int]) -> list[Episode]:
    """Return a batch of episodes with one to three turns. Some failed, among them all but one of a group, or were cut.

    Args:
        common: Tokens that all prompts begin with.
        flat: The groups whose episodes all earn the same.
    """
    draw = random.Random(0)
    batch = []
    for group in range(GROUPS):
        prompt = (*range(200, 200 + common), *(draw.randrange(60, 200) for _ in range(draw.randrange(2, 9))))
        for member in range(SIZE):
            turns = draw.randrange(1, 4)
            batch.append(
                Episode(
                    group,
                    prompt,
                    tuple(tuple(draw.randrange(60, 200) for _ in range(draw.randrange(1, 12))) for _ in range(turns)),
                    outcome=1.0 if group in flat else float(draw.random() < 0.5 or member == 0) * (member != 1),
                    steps=(0.0,) * turns if group in flat else tuple(float(draw.random() < 0.5) for _ in range(turns)),
                    failed=(group, member) == (0, 2) or (group == 3 and member > 0),
                    truncated=(group, member) in {(0, 3), (2, 1)},
                )
            )
    return batch


def advantages(batch: Sequence[Episode], mode: str) -> list[list[float]]:
    """Return the advantage of each turn."""
    pay = [
        [STEP_WEIGHT * step if mode != "outcome" and e.outcome >= OPENS_AT else 0.0 for step in e.steps] for e in batch
    ]
    totals = [e.outcome + (sum(earned) if mode == "gated" else 0.0) for e, earned in zip(batch, pay, strict=True)]
    result = []
    for episode, earned, total in zip(batch, pay, totals, strict=True):
        peers = [number for number, e in enumerate(batch) if e.group == episode.group and not e.failed]
        if episode.failed or len(peers) < 2:
            result.append([0.0] * len(earned))
            continue
        row = [compared(total, [totals[peer] for peer in peers])] * len(earned)
        if mode == "turn":
            all_turns = [sum(pay[peer][turn:]) for peer in peers for turn in range(len(pay[peer]))]
            row = [a + 0.5 * compared(sum(earned[turn:]), all_turns) for turn, a in enumerate(row)]
        result.append(row)
    return result


def compared(value: float, peers: Sequence[float]) -> float:
    """Return a reward's advantage over those of its peers."""
    return (value - statistics.fmean(peers)) / (statistics.stdev(peers) + 1e-4)


def carries_loss(batch: Sequence[Episode], settings: Settings) -> list[list[bool]]:
    """Return whether each turn carries loss."""
    usable = {group for group in {e.group for e in batch} if sum(e.group == group and not e.failed for e in batch) > 1}
    return [
        [not e.failed and e.group in usable and (settings.train_on_truncated or not e.truncated)] * len(e.sampled)
        for e in batch
    ]


def scores(model: Any, episode: Episode, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the log-probability of each completion token, and the entropy of its distribution; both `(tokens,)`."""
    completion = [token for token, _ in episode.completion]
    ids = torch.tensor([[*episode.prompt, *completion]])
    logits = model(input_ids=ids, use_cache=False).logits[0, len(episode.prompt) - 1 : -1] / temperature
    logprobs = torch.log_softmax(logits, dim=-1)
    return logprobs.gather(1, torch.tensor(completion)[:, None])[:, 0], -(logprobs.exp() * logprobs).sum(dim=-1)


def token_losses(
    settings: Settings, new: torch.Tensor, old: torch.Tensor, a: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Return the loss of each token of a trajectory.

    Args:
        settings: The loss.
        new: Log-probabilities under the weights that are learning.
        old: Those under the weights that sampled.
        a: Advantages.
        mask: True at tokens that carry loss.
    """
    ratio = (new - old).exp()
    if settings.loss == "cispo":
        return -ratio.clamp(max=settings.clip_high).detach() * a * new
    if settings.loss == "sapo":
        sharpness = torch.where(a > 0, 1.0, 1.05)
        return -4 / sharpness * torch.sigmoid(sharpness * (ratio - 1)) * a
    if settings.loss == "vespo":
        weight = ((new - old)[mask].sum()).detach()
        power, rate = torch.where(a >= 0, 2.0, 3.0), torch.where(a >= 0, 3.0, 2.0)
        return -(rate + power * weight - rate * weight.exp()).exp() * a * new
    return -torch.min(ratio * a, ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high) * a)


def update_loss(
    settings: Settings, model: Any, batch: Sequence[Episode], update: Sequence[int], old: Any, start: Any
) -> torch.Tensor:
    """Return the loss of an update.

    Args:
        settings: The loss.
        model: The weights that are learning.
        batch: All episodes of the step.
        update: Positions of the episodes that the update learns from.
        old: The weights that sampled them.
        start: The weights at the start of the run.
    """
    credit, carried = advantages(batch, settings.credit), carries_loss(batch, settings)
    mask = {n: torch.tensor([t is not None and carried[n][t] for _, t in e.completion]) for n, e in enumerate(batch)}
    rows, entropy = [], torch.zeros(())
    for number in update:
        episode, own = batch[number], mask[number]
        if not own.any():
            continue
        new, spread = scores(model, episode, settings.temperature)
        with torch.no_grad():
            before, _ = scores(old, episode, settings.temperature)
            first, _ = scores(start, episode, settings.temperature)
        a = torch.tensor([0.0 if t is None else credit[number][t] for _, t in episode.completion], dtype=new.dtype)
        loss = token_losses(settings, new, before, a, own)
        gap = first - new
        loss = loss + settings.kl_weight * (gap.exp() - gap - 1) * (new - before).exp()
        rows.append((loss[own].sum(), int(own.sum())))
        entropy = entropy + spread[own].sum()
    tokens = sum(count for _, count in rows)
    step_tokens = sum(int(own.sum()) for own in mask.values())
    total = sum((loss for loss, _ in rows), torch.zeros(()))
    mean = {
        "dapo": lambda: total / (step_tokens / settings.updates_per_step),
        "cispo": lambda: total / (step_tokens / settings.updates_per_step),
        "vespo": lambda: total / (step_tokens / settings.updates_per_step),
        "bnpo": lambda: total / tokens,
        "grpo": lambda: sum((loss / count for loss, count in rows), torch.zeros(())) / len(rows),
        "sapo": lambda: sum((loss / count for loss, count in rows), torch.zeros(())) / len(rows),
        "luspo": lambda: total / len(rows),
        "dr_grpo": lambda: total / (len(rows) * settings.context),
    }
    return mean[settings.loss]() - settings.entropy_weight * entropy / tokens


def gradient(model: Any, loss: torch.Tensor) -> torch.Tensor:
    """Return the gradient of all weights as one vector."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, weights)])


def difference(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the norm of the difference as a share of the expected norm."""
    norm = expected.double().norm().item()
    return (actual.double() - expected.double()).norm().item() / norm if norm else math.inf
