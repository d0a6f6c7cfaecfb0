"""The correction for the difference between the sampler and the trainer, against plain computations."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch

from agentgym.trainers.config import LOSSES
from agentgym.trainers.credit import Credit
from agentgym.trainers.importance import SamplerGap, importance_weights
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]

GAPS = torch.tensor([[0.3, -0.3, 0.0, 2.0, -2.0, 0.1]])
"""Nats by which the trainer finds each token likelier than the sampler."""

WEIGHTS = GAPS.exp().clamp(max=3.0)
ADVANTAGES = torch.tensor([[1.0, 1.0, 0.5, 0.5, -1.0, -1.0]])
PROMPT, COMPLETION = torch.tensor([[7, 8, 9]]), torch.arange(20, 26)[None]


@each_row(
    "trainer, sampler, mask, expected",
    [
        (-1.0, -1.0, 1, 1.0),
        (-1.0, -1.5, 1, math.exp(0.5)),
        (-1.5, -1.0, 1, math.exp(-0.5)),
        (-1.0, -3.0, 1, 3.0),  # truncated
        (-1.0, -3.0, 0, 1.0),
        (-1.0, math.nan, 1, 1.0),
        (-math.inf, -1.0, 1, 0.0),
    ],
)
def test_the_weight_of_a_token(trainer: float, sampler: float, mask: int, expected: float):
    values = [torch.tensor([[value]]) for value in (trainer, sampler, mask)]
    assert importance_weights(*values).item() == pytest.approx(expected, rel=1e-6)


def test_the_gap_is_that_of_all_processes_and_empty_without_tokens():
    gap = SamplerGap()
    assert gap.take(list) == {}
    trainer, mask = torch.tensor([[-1.0, -2.0, -9.0]]), torch.tensor([[1, 1, 0]])
    sampler = torch.tensor([[-1.5, -1.0, -1.0]])
    gap.add(trainer, sampler, importance_weights(trainer, sampler, mask), mask)
    other = (2, 0.5, 0.1, 0.4, 2, 2.2, 1.0, 1.2)  # of another process
    metrics = gap.take(lambda own: [*own, other])
    ratios = [math.exp(0.5), math.exp(-1.0)]
    assert list(metrics.values()) == pytest.approx(
        [(0.5 + 1.0 + 0.5) / 4, 1.0, min(ratios), (sum(ratios) + 2.2) / 4, max(ratios)], rel=1e-6
    )
    assert gap.take(list) == {}


def plain_logprobs(model: Any, ids: torch.Tensor, first: int) -> torch.Tensor:
    """Return the log-probabilities of the tokens from `first` on, from all logits."""
    logits = model(input_ids=ids).logits[:, first - 1 : -1]
    return torch.log_softmax(logits, dim=-1).gather(2, ids[:, first:, None])[..., 0]


def gradient(model: Any, loss: torch.Tensor) -> torch.Tensor:
    model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def plain_gradient(model: Any, factors: torch.Tensor) -> torch.Tensor:
    logprobs = plain_logprobs(model, torch.cat([PROMPT, COMPLETION], dim=1), 3)
    return gradient(model, -(factors * logprobs).sum())


def trainer_gradient(trainer: Any, model: Any) -> torch.Tensor:
    """Return the gradient of one row, the only one of its batch, which a sampler with the gaps has drawn."""
    trainer.current_gradient_accumulation_steps = 1
    with torch.no_grad():
        logprobs = plain_logprobs(model, torch.cat([PROMPT, COMPLETION], dim=1), 3)
    model.train()
    inputs = {
        "row": torch.tensor([0]),
        "needed": torch.tensor([True]),
        "is_current": torch.ones_like(COMPLETION),
        "prompt_ids": PROMPT,
        "prompt_mask": torch.ones_like(PROMPT),
        "completion_ids": COMPLETION,
        "completion_mask": torch.ones_like(COMPLETION),
        "tool_mask": torch.ones_like(COMPLETION),
        "advantages": ADVANTAGES,
        "num_items_in_batch": torch.tensor(COMPLETION.numel()),
        "sampling_per_token_logps": logprobs - GAPS,
    }
    trainer.scores.begin([trainer.canned.make(0, 1)])
    losses = [trainer.compute_loss(model, inputs) for _ in range(2)]
    assert losses[0].item() == losses[1].item()  # the inputs are as they were
    return gradient(model, losses[1])


def made(trainer_of: Any, canned: Any, **settings: Any) -> Any:
    rollouts = canned()
    trainer = trainer_of(rollouts, **settings)
    trainer.canned = rollouts
    return trainer


@each_row("loss", [loss for loss in LOSSES if loss != "vespo"])
def test_the_gradient_of_a_token_is_weighted(loss: str, trainer_of: Any, canned: Any, model: Any):
    actual = trainer_gradient(made(trainer_of, canned, loss=loss, clip_high=5.0 if loss == "cispo" else 0.28), model)
    expected = plain_gradient(model, ADVANTAGES * WEIGHTS)
    assert torch.cosine_similarity(actual, expected, dim=0) > 0.99999
    assert torch.cosine_similarity(actual, plain_gradient(model, ADVANTAGES), dim=0) < 0.99
    if loss == "dapo":
        assert torch.allclose(actual, expected / COMPLETION.numel(), rtol=1e-4, atol=1e-6)


def test_the_loss_vespo_takes_the_weights_into_its_own_formula(trainer_of: Any, canned: Any, model: Any):
    trainer = made(trainer_of, canned, loss="vespo")
    args, ratio = trainer.args, WEIGHTS.prod()
    positive, negative = (
        math.exp(rate) * ratio**power * torch.exp(-rate * ratio)
        for power, rate in ((args.vespo_k_pos, args.vespo_lambda_pos), (args.vespo_k_neg, args.vespo_lambda_neg))
    )
    expected = plain_gradient(model, torch.where(ADVANTAGES >= 0, positive, negative) * ADVANTAGES)
    assert torch.allclose(trainer_gradient(trainer, model), expected / COMPLETION.numel(), rtol=1e-3, atol=1e-6)


def expected_weights(model: Any, tokens: Any) -> torch.Tensor:
    """Return the weights of a canned trajectory, whose sampler gave each token a log-probability of -1."""
    with torch.no_grad():
        scores = plain_logprobs(model, torch.tensor([tokens.prompt_ids + tokens.completion_ids]), 3)[0]
    return torch.where(torch.tensor(tokens.loss_mask).bool(), (scores + 1).exp().clamp(max=3.0), 1.0)


def test_a_step_of_one_update_learns_from_weighted_tokens(trainer_of: Any, canned: Any, model: Any):
    """The norm of a whole step's gradient, in micro-batches, equals that of a plain loop over the episodes."""
    rollouts = canned()
    episodes = [rollouts.make(row, 8) for row in range(8)]
    advantages = Credit().advantages(episodes, [row // 4 for row in range(8)])
    loss = torch.zeros(())
    for episode, per_turn in zip(episodes, advantages, strict=True):
        weights = expected_weights(model, episode.tokens)
        ids = torch.tensor([episode.tokens.prompt_ids + episode.tokens.completion_ids])
        logprobs = plain_logprobs(model, ids, 3)[0]
        for turn, advantage in zip(episode.model_turns, per_turn, strict=True):
            where = slice(*turn.span)
            loss = loss - (advantage * weights[where] * logprobs[where]).sum()
    norm = gradient(model, loss / sum(sum(episode.tokens.loss_mask) for episode in episodes)).norm().item()
    trainer = trainer_of(rollouts, micro_batch=2)
    trainer.train()
    assert trainer.state.log_history[0]["grad_norm"] == pytest.approx(norm, rel=1e-4)


def test_a_step_of_several_updates_weighs_by_the_policy_that_sampled(trainer_of: Any, canned: Any, model: Any):
    rollouts = canned()
    weights = [expected_weights(model, rollouts.make(row, 8).tokens) for row in range(8)]
    trainer = trainer_of(rollouts, epochs_per_step=2, micro_batch=4, learning_rate=1e-2, warmup_steps=0)
    trainer.train()
    [batch] = trainer.batches
    episodes = [row["trajectory"] for row in batch["rows"]]
    advantages = Credit().advantages(episodes, [row // 4 for row in range(8)])
    largest = torch.zeros(())
    for row, episode in enumerate(episodes):
        if not any(advantages[row]):
            continue  # no pass computes it
        largest = max(largest, weights[row][torch.tensor(episode.tokens.loss_mask).bool()].max())
        for turn, advantage in zip(episode.turns, advantages[row], strict=True):
            where = slice(*turn.span)
            assert torch.allclose(batch["advantages"][row, where], advantage * weights[row][where], rtol=1e-3)
    logged = trainer.state.log_history[0]["sampling/importance_sampling_ratio/max"]
    assert logged == pytest.approx(largest.item(), rel=1e-3)
