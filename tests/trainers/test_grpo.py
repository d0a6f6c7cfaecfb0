"""The trainer learns from the sampled tokens, each with its turn's advantage, and from nothing else."""

from __future__ import annotations

import math
from itertools import count
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch

from agentgym.core.endings import Reason
from agentgym.core.trajectory import Tokens, Trajectory
from agentgym.trainers.credit import Credit, CreditMode
from agentgym.trainers.grpo import check_batch, completion_of
from agentgym.trainers.trl_seam import loss_mask
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]


def run(trainer: Any) -> dict[str, Any]:
    """Train one step and return the batch that was learned from."""
    trainer.train()
    [batch] = trainer.batches
    return batch


@each_row("mode", CreditMode)
def test_each_turn_has_its_advantage_on_its_own_tokens(mode: CreditMode, trainer_of: Any, canned: Any):
    credit = Credit(mode)
    batch = run(trainer_of(canned(), credit))
    trajectories = [row["trajectory"] for row in batch["rows"]]
    per_turn = credit.advantages(trajectories, [row // 4 for row in range(8)])
    for row, trajectory in enumerate(trajectories):
        expected = [0.0] * batch["completion_ids"].shape[1]
        for turn, advantage in zip(trajectory.turns, per_turn[row], strict=True):
            expected[slice(*turn.span)] = [advantage] * (turn.span[1] - turn.span[0])
        assert batch["advantages"][row].tolist() == pytest.approx(expected, abs=1e-6)
    assert batch["advantages"][-1, :2].tolist() == pytest.approx([1.5, 1.5], abs=1e-3)


def test_the_solved_trajectory_becomes_likelier(trainer_of: Any, canned: Any, trajectory: Any, model: Any):
    def likelihood(row: int) -> float:
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([[7, 8, 9 + row]])).logits[0, -1]
        return torch.log_softmax(logits, dim=-1)[20 + row].item()

    rollouts = canned(lambda row, rows: trajectory(row, [[20 + row]], float(row == rows - 1)))
    trainer = trainer_of(rollouts, groups=1, learning_rate=1e-3, warmup_steps=0)
    before = [likelihood(row) for row in range(4)]
    trainer.train()
    changes = [likelihood(row) - old for row, old in enumerate(before)]
    assert changes[3] > 0 > max(changes[:3])


def test_failed_trajectories_carry_no_loss_and_do_not_count(trainer_of: Any, canned: Any, trajectory: Any):
    def make(row: int, rows: int) -> Any:
        return trajectory(row, [[20 + row, 5]], float(row % 2), broken=row in (0, 3))

    trainer = trainer_of(canned(make))
    batch = run(trainer)
    mask = batch["completion_mask"] * batch["tool_mask"]
    for row in (0, 3):
        assert batch["rows"][row]["paid"] is None
        assert not mask[row].any()
        assert not batch["advantages"][row].any()
    assert batch["advantages"][1, 0] > 0 > batch["advantages"][2, 0]
    assert math.isfinite(trainer.state.log_history[0]["loss"])


def second_step_of_both_versions(canned: Any) -> Any:
    """Rollouts whose second batch has a turn of the first step's weights, then one of the second's."""
    rollouts, calls = canned(), count()
    make = rollouts.make

    def aged(row: int, rows: int) -> Any:
        trajectory, is_second = make(row, rows), next(calls) >= rows
        tokens, (first, last) = trajectory.tokens, trajectory.turns
        tokens.versions[slice(*first.span)] = [0, 0]
        tokens.versions[slice(*last.span)] = [int(is_second)] * 2
        return trajectory

    rollouts.make = aged
    return rollouts


def test_stale_tokens_carry_no_loss_and_their_episode_still_counts(trainer_of: Any, canned: Any):
    credit = Credit(CreditMode.GATED)
    trainer = trainer_of(second_step_of_both_versions(canned), credit, steps=2, max_staleness=0)
    trainer.train()
    first, second = trainer.batches
    assert (loss_mask(first) == first["tool_mask"]).all()
    assert loss_mask(first).sum() == 8 * 4
    assert loss_mask(second).tolist() == [[0, 0, 0, 0, 1, 1]] * 8
    assert int(second["num_items_in_batch"]) == 8 * 2
    assert second["advantages"][:, 4:].tolist() == first["advantages"][:, 4:].tolist()
    assert not second["advantages"][:, :4].any()


def test_the_gap_is_that_of_the_current_weights(trainer_of: Any, canned: Any, model: Any):
    """Without learning, the trainer's log-probabilities stay those of the model; the recorded ones are -1."""
    rollouts = canned()
    episodes = [rollouts.make(row, 8) for row in range(8)]
    advantages = Credit(CreditMode.GATED).advantages(episodes, [row // 4 for row in range(8)])
    computed = [episode for episode, row in zip(episodes, advantages, strict=True) if any(row)]
    scores = [model_scores(model, episode.tokens)[4:] for episode in computed]
    trainer = trainer_of(second_step_of_both_versions(canned), steps=2, learning_rate=0.0)
    trainer.train()
    gap = trainer.state.log_history[1]["sampling/sampling_logp_difference/mean"]
    assert gap == pytest.approx((torch.cat(scores) + 1).abs().mean().item(), rel=1e-3)


@each_row("tokens", [None, Tokens(), Tokens(prompt_ids=[7, 8])])
def test_an_episode_without_a_turn_becomes_one_masked_token(tokens: Tokens | None):
    failed = Trajectory("t", "env", "task", "hash", 0, "policy", [], reason=Reason.INFRASTRUCTURE, tokens=tokens)
    assert completion_of(failed, []) == ([0], [0])


def batch_of(tokens: Tokens, padding: int = 2) -> dict[str, torch.Tensor]:
    pad = [0] * padding
    mask = torch.tensor([tokens.loss_mask + pad])
    return {
        "completion_ids": torch.tensor([tokens.completion_ids + pad]),
        "completion_mask": torch.tensor([[1] * len(tokens.completion_ids) + pad]),
        "tool_mask": mask,
        "advantages": mask * 0.5,
    }


@each_row(
    "what, place, value, message",
    [
        ("completion_ids", 1, 8, "differ from the sampled tokens"),
        ("tool_mask", 0, 0, "would carry loss"),
        ("tool_mask", 3, 1, "would carry loss"),
        ("advantages", 3, 0.1, "an observation token has an advantage"),
    ],
)
def test_a_batch_that_was_changed_is_caught(what: str, place: int, value: float, message: str):
    tokens = Tokens(prompt_ids=[1])
    tokens.append_sampled([5, 6, 7], [-1.0] * 3, 0)
    tokens.append_observed([9, 9])
    trajectory = Trajectory("t", "env", "task", "hash", 0, "p", [], reason=Reason.ANSWERED, tokens=tokens)
    batch = batch_of(tokens)
    batch[what][0, place] = value
    with pytest.raises(RuntimeError, match=message):
        check_batch([trajectory], [(tokens.completion_ids, tokens.loss_mask)], batch)


def model_scores(model: Any, tokens: Tokens) -> torch.Tensor:
    """Return the log-probabilities of the completion of a prompt of three tokens."""
    ids = torch.tensor([tokens.prompt_ids + tokens.completion_ids])
    with torch.inference_mode():
        return torch.log_softmax(model(input_ids=ids).logits[0, 2:-1], dim=-1).gather(1, ids[0, 3:, None])[:, 0]


def test_the_gap_is_measured_before_the_weights_change(trainer_of: Any, canned: Any, model: Any):
    """The trajectories say that each token had the log-probability -1. The first group is not computed."""
    rollouts, gaps = canned(), []
    for row in range(4, 8):
        tokens = rollouts.make(row, 8).tokens
        scores = model_scores(model, tokens).tolist()
        gaps += [abs(score + 1) for score, m in zip(scores, tokens.loss_mask, strict=True) if m]
    trainer = trainer_of(rollouts, epochs_per_step=2, micro_batch=4, learning_rate=1e-2, warmup_steps=0)
    trainer.train()
    logged = trainer.state.log_history[0]
    assert logged["sampling/sampling_logp_difference/mean"] == pytest.approx(sum(gaps) / len(gaps), rel=1e-3)
    assert logged["sampling/sampling_logp_difference/max"] == pytest.approx(max(gaps), rel=1e-3)


def test_scores_are_those_of_the_weights_that_sampled(trainer_of: Any, canned: Any, model: Any):
    rollouts, scored = canned(), []
    trainer = trainer_of(rollouts, on_scores=scored.extend, epochs_per_step=2, micro_batch=2, learning_rate=1e-2)
    expected = {
        trajectory.id: (model_scores(model, trajectory.tokens) * torch.tensor(trajectory.tokens.loss_mask)).tolist()
        for trajectory in (rollouts.make(row, 8) for row in (0, 5))
    }
    trainer.scores.selected = frozenset(expected)
    trainer.train()
    assert sorted(trajectory.id for trajectory in scored) == sorted(expected)  # of those that are wanted, once
    for trajectory in scored:
        assert trajectory.logprobs == pytest.approx(expected[trajectory.id], abs=2e-3)


def computed(trainer: Any) -> list[torch.Tensor]:
    """Train one step; return the input ids of each pass."""
    passes: list[torch.Tensor] = []
    trainer.model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: passes.append(kwargs["input_ids"]), with_kwargs=True
    )
    trainer.train()
    return passes


@each_row(
    "settings, recorded, rows",
    [
        ({}, "", [4, 5, 6, 7]),
        ({}, "t2", [2, 4, 5, 6, 7]),
        ({"entropy_weight": 0.1}, "", range(8)),
    ],
)
def test_a_group_without_a_difference_is_not_computed(
    settings: dict[str, Any], recorded: str, rows: Any, trainer_of: Any, canned: Any
):
    """Unless its log-probabilities are recorded or the loss has another term. Every update has all of its passes."""
    trainer = trainer_of(canned(), micro_batch=2, **settings)
    trainer.scores.selected = frozenset([recorded])
    passes = computed(trainer)
    assert sorted(ids[2].item() - 9 for part in passes for ids in part if len(ids) > 2) == sorted(rows)
    assert len(passes) == 4


def test_turns_that_are_not_trained_on_carry_no_loss(trainer_of: Any, canned: Any, trajectory: Any):
    """Nor do they count in its means, and their log-probabilities are not recorded."""

    def make(row: int, rows: int) -> Any:
        made = trajectory(row, [[20 + row, 21], [22, 5]], float(row % 2))
        made.turns[1].finish = "length" if row == 1 else None
        return made

    scored: list[Any] = []
    trainer = trainer_of(canned(make), Credit(train_on_truncated=False), on_scores=scored.extend)
    trainer.scores.selected = frozenset(["t1", "t2"])
    batch = run(trainer)
    mask = batch["completion_mask"] * batch["tool_mask"]
    assert mask[:2].tolist() == [[1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 1, 1]][::-1]
    assert batch["num_items_in_batch"] == 8 * 4 - 2
    assert [score.id for score in scored] == ["t2"]
