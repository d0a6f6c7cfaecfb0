"""The estimate of how far the policy has moved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch

from agentgym.core.endings import Reason
from agentgym.core.trajectory import Tokens, Trajectory
from agentgym.trainers.kl import StartingPolicy
from agentgym.trainers.sampled_batch import SampledBatch
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]


def sampled(model: Any, temperature: float = 1.0) -> Trajectory:
    """A trajectory with the log-probabilities of `model`, and an observation in the middle."""
    tokens = Tokens(prompt_ids=[7, 8])
    for part, observed in (([20, 21, 22], [40, 41]), ([23, 24], [])):
        ids = tokens.prompt_ids + tokens.completion_ids + part
        with torch.inference_mode():
            logprobs = torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0] / temperature, dim=-1)
        sampled_logprobs = logprobs[len(ids) - len(part) - 1 : -1].gather(1, torch.tensor(part)[:, None])[:, 0].tolist()
        tokens.append_sampled(part, sampled_logprobs, 0)
        tokens.append_observed(observed)
    return Trajectory("t", "env", "task", "hash", 0, "policy", [], reason=Reason.ANSWERED, tokens=tokens)


@each_row("temperature", [1.0, 0.5])
def test_at_the_start_there_is_no_divergence(model: Any, temperature: float):
    start = StartingPolicy(model, use_copy=True, temperature=temperature)
    assert start.divergence(model, SampledBatch.of([sampled(model, temperature)])) == pytest.approx(0, abs=1e-5)


def test_the_divergence_is_the_mean_gap_on_sampled_tokens(model: Any):
    before = sampled(model)
    start = StartingPolicy(model, use_copy=True)
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(1.3)
    after = sampled(model)
    assert after.tokens is not None
    assert before.tokens is not None
    pairs = zip(after.tokens.logprobs, before.tokens.logprobs, after.tokens.loss_mask, strict=True)
    gaps = [now - then for now, then, mask in pairs if mask]
    assert start.divergence(model, SampledBatch.of([after])) == pytest.approx(sum(gaps) / len(gaps), abs=1e-5)
    assert abs(sum(gaps)) > 1e-3


def test_the_divergence_is_measured_on_a_few_episodes_spread_over_the_batch(model: Any):
    """At most 16; what has no tokens is passed over. Which they are shows in what they have drifted by."""
    start = StartingPolicy(model, use_copy=True)
    like = sampled(model)
    assert like.tokens is not None

    def drifted(by: float) -> Trajectory:
        assert like.tokens is not None
        logprobs = [p + by for p in like.tokens.logprobs]
        tokens = replace(like.tokens, logprobs=logprobs)
        return replace(like, tokens=tokens)

    batch = [drifted(float(number)) for number in range(40)]
    measured = range(0, 32, 2)
    expected = sum(measured) / len(measured)
    silent = replace(like, tokens=Tokens(prompt_ids=[7]))
    for trajectories in (batch, [replace(like, tokens=None), *batch, silent]):
        assert start.divergence(model, SampledBatch.of(trajectories)) == pytest.approx(expected, abs=1e-4)
    assert start.divergence(model, SampledBatch.of(batch[:3])) == pytest.approx(1.0, abs=1e-4)


def test_without_a_copy_nothing_is_measured(model: Any):
    assert StartingPolicy(model, use_copy=False).divergence(model, SampledBatch.of([sampled(model)])) is None
    assert StartingPolicy(model, use_copy=True).divergence(model, SampledBatch.of([])) is None
