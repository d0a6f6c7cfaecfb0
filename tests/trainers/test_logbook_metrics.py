"""Metrics of a step, and the estimate of how far the policy has moved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch

from agentgym.endings import Reason
from agentgym.trainers.credit import Credit
from agentgym.trainers.kl import StartingPolicy
from agentgym.trainers.logbook.metrics import batch_metrics, flat_groups
from agentgym.trajectory import Tokens, Trajectory, Turn
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]


def episode(outcome: float, reason: Reason = Reason.ANSWERED, **counts: int) -> Trajectory:
    turns = [
        Turn("a", [], {"outcome": 0.0, "format": 1.0}, 0.0),
        Turn("b", [], {"outcome": outcome, "format": 0.0}, 0.0),
    ]
    if reason is Reason.MAX_TURNS:
        turns.append(Turn(None, [], {"outcome": 0.0, "format": 0.0}, 0.0))
    tokens = Tokens([1, 2], [3, 4, 5], [1, 0, 1], [0.0] * 3, [0] * 3)
    return Trajectory(
        "t", "env", "task", "hash", 0, "policy", [], turns=turns, reason=reason, counts=counts, tokens=tokens
    )


def test_metrics_are_means_over_the_episodes_that_were_played():
    batch = [
        episode(1.0, calls=3, tool_errors=1),
        episode(0.0, Reason.MAX_TURNS, calls=1, format_errors=2),
        episode(9.0, Reason.INFRASTRUCTURE, calls=50, tool_errors=50),
    ]
    metrics = batch_metrics(batch, Credit())
    assert metrics["failed"] == pytest.approx(1 / 3)
    assert metrics["reward"] == metrics["success"] == metrics["truncated"] == 0.5
    assert metrics["tool_errors"] == 1 / 4
    assert metrics["format_errors"] == 2 / 4
    assert metrics["turns"] == metrics["sampled_tokens"] == 2
    assert metrics["channel/format"] == 1.0
    assert metrics["flat_groups"] == 0.0


def test_each_metric_counts_what_it_is_named_for():
    """Uneven numbers, so that a share of one thing is not that of another."""
    batch = [
        episode(1.0, Reason.CANCELLED, calls=9, tool_errors=9, format_errors=9),
        episode(1.0, calls=2, tool_errors=1),
        episode(0.0, Reason.MAX_TURNS, calls=5, format_errors=1),
        episode(0.5),
    ]
    batch[3].turns = batch[3].turns[1:]
    batch[2].seed = batch[3].seed = 1
    metrics = batch_metrics(batch, Credit())
    assert metrics["failed"] == 1 / 4
    assert metrics["reward"] == 1.5 / 3
    assert metrics["success"] == metrics["truncated"] == pytest.approx(1 / 3)
    assert metrics["turns"] == pytest.approx((2 + 2 + 1) / 3)
    assert metrics["tool_errors"] == 1 / 7
    assert metrics["format_errors"] == 1 / 5
    assert metrics["flat_groups"] == 1 / 2
    assert metrics["channel/format"] == pytest.approx(2 / 3)


def test_episodes_in_which_nothing_was_called_or_said_have_no_errors():
    silent = episode(0.0)
    silent.turns = []
    metrics = batch_metrics([silent], Credit())
    assert metrics["tool_errors"] == metrics["format_errors"] == metrics["turns"] == metrics["failed"] == 0
    assert not [name for name in metrics if name.startswith("channel/")]


def test_one_call_that_is_wrong_and_one_turn_that_cannot_be_read_are_all_of_them():
    only = episode(0.0, calls=1, tool_errors=1, format_errors=1)
    only.turns = only.turns[:1]
    metrics = batch_metrics([only], Credit())
    assert metrics["tool_errors"] == metrics["format_errors"] == 1.0


def test_a_channel_that_is_not_measured_in_every_turn_counts_there_as_nothing():
    batch = [episode(1.0), episode(1.0)]
    del batch[1].turns[0].rewards["format"]
    assert batch_metrics(batch, Credit())["channel/format"] == 0.5


def test_a_batch_of_failures_has_nothing_else_to_tell():
    assert batch_metrics([episode(1.0, Reason.CANCELLED)], Credit()) == {"failed": 1.0}


def test_groups_are_flat_when_all_rewards_that_count_are_equal():
    assert flat_groups([1, 1, 0, 1], [0, 0, 1, 1]) == 0.5
    assert flat_groups([1, None, None, None, 0.5, 0.25], [0, 0, 1, 1, 2, 2]) == pytest.approx(2 / 3)


def sampled(model: Any, temperature: float = 1.0) -> Trajectory:
    """A trajectory with the log-probabilities of `model`, and an observation in the middle."""
    tokens = Tokens(prompt_ids=[7, 8])
    for part, observed in (([20, 21, 22], [40, 41]), ([23, 24], [])):
        ids = tokens.prompt_ids + tokens.completion_ids + part
        with torch.inference_mode():
            logprobs = torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0] / temperature, dim=-1)
        said = logprobs[len(ids) - len(part) - 1 : -1].gather(1, torch.tensor(part)[:, None])[:, 0].tolist()
        tokens.append_sampled(part, said, 0)
        tokens.append_observed(observed)
    return Trajectory("t", "env", "task", "hash", 0, "policy", [], reason=Reason.ANSWERED, tokens=tokens)


@each_row("temperature", [1.0, 0.5])
def test_at_the_start_there_is_no_divergence(model: Any, temperature: float):
    start = StartingPolicy(model, use_copy=True, temperature=temperature)
    assert start.divergence(model, [sampled(model, temperature)]) == pytest.approx(0, abs=1e-5)


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
    assert start.divergence(model, [after]) == pytest.approx(sum(gaps) / len(gaps), abs=1e-5)
    assert abs(sum(gaps)) > 1e-3


def test_the_divergence_is_measured_on_a_few_episodes_spread_over_the_batch(model: Any):
    """At most 16; what has no tokens is passed over. Which they are shows in what they have drifted by."""
    start = StartingPolicy(model, use_copy=True)
    like = sampled(model)
    assert like.tokens is not None

    def drifted(by: float) -> Trajectory:
        assert like.tokens is not None
        moved = [p + by for p in like.tokens.logprobs]
        tokens = replace(like.tokens, logprobs=moved)
        return replace(like, tokens=tokens)

    batch = [drifted(float(number)) for number in range(40)]
    measured = range(0, 32, 2)
    wanted = sum(measured) / len(measured)
    silent = replace(like, tokens=Tokens(prompt_ids=[7]))
    for some in (batch, [replace(like, tokens=None), *batch, silent]):
        assert start.divergence(model, some) == pytest.approx(wanted, abs=1e-4)
    assert start.divergence(model, batch[:3]) == pytest.approx(1.0, abs=1e-4)


def test_without_a_copy_nothing_is_measured(model: Any):
    assert StartingPolicy(model, use_copy=False).divergence(model, [sampled(model)]) is None
    assert StartingPolicy(model, use_copy=True).divergence(model, []) is None
