"""What agentgym takes for granted about TRL's private names. If one of these fails, this TRL cannot be used."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import requires, version
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch
from packaging.requirements import Requirement
from trl import GRPOConfig, GRPOTrainer  # pyright: ignore[reportPrivateImportUsage]

from agentgym.errors import UsageError
from agentgym.trainers.config import LOSSES, TrainConfig
from agentgym.trainers.grpo import AgentGRPOTrainer, refuse
from agentgym.trainers.trl_config import grpo_config
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]


def test_the_installed_trl_is_one_that_was_tried():
    wanted = [Requirement(text) for text in requires("agentgym-suite") or [] if re.match(r"trl\b", text)]
    assert wanted
    assert all(version("trl") in requirement.specifier for requirement in wanted)


def test_the_trainer_s_log_probabilities_are_what_the_seam_returns_first(trainer_of: Any, canned: Any):
    parameters = inspect.signature(GRPOTrainer._get_per_token_logps_and_entropies).parameters
    assert list(parameters)[:5] == ["self", "model", "input_ids", "attention_mask", "logits_to_keep"]
    trainer = trainer_of(canned())
    trainer.train()
    assert "sampling_per_token_logps" in trainer.kept[0]


# How prompts come, and what goes back.


def test_prompts_come_in_contiguous_groups(trainer_of: Any, canned: Any):
    rollouts = canned()
    trainer_of(rollouts, groups=3, group_size=4).train()
    [rows] = rollouts.rows
    assert rows == [row for row in dict.fromkeys(rows) for _ in range(4)]
    assert len(set(rows)) == 3


def test_every_update_of_a_step_uses_the_same_rollouts(trainer_of: Any, canned: Any):
    rollouts = canned()
    trainer = trainer_of(
        rollouts, steps=2, groups=4, group_size=2, updates_per_step=2, epochs_per_step=2, micro_batch=2
    )
    trainer.train()
    assert [len(rows) for rows in rollouts.rows] == [8, 8]
    assert trainer.state.global_step == 8


@each_row("updates, in_order", [(1, True), (3, False)])
def test_groups_stay_together_unless_a_batch_is_learned_from_in_several_updates(
    trainer_of: Any, canned: Any, updates: int, in_order: bool
):
    trainer = trainer_of(canned(), groups=3, group_size=8, updates_per_step=updates, micro_batch=8)
    learned, compute = [], trainer._compute_loss

    def noted(model: Any, inputs: Any) -> Any:
        learned.append((inputs["completion_ids"][:, 0] - 20).tolist())  # the first token says which row it is
        return compute(model, inputs)

    trainer._compute_loss = noted
    trainer.train()
    assert sorted(row for batch in learned for row in batch) == list(range(24))
    assert (learned == [list(range(8)), list(range(8, 16)), list(range(16, 24))]) == in_order


def test_the_mask_of_sampled_tokens_becomes_the_loss_mask(trainer_of: Any, canned: Any):
    trainer = trainer_of(canned())
    trainer.train()
    [batch] = trainer.kept
    assert batch["completion_ids"][0].tolist() == [20, 21, 40, 41, 22, 5]
    assert (batch["completion_mask"] * batch["tool_mask"])[0].tolist() == [1, 1, 0, 0, 1, 1]


def test_columns_of_a_rollout_reach_the_reward_function_and_the_override(trainer_of: Any, canned: Any):
    trainer = trainer_of(canned())
    trainer.train()
    [batch] = trainer.kept
    assert [row["trajectory"].id for row in batch["rows"]] == [f"t{i}" for i in range(8)]
    logged = trainer.state.log_history[0]
    assert logged["reward"] == pytest.approx(1 / 8)


# Advantages per token.


def _gradients(model: Any, loss: torch.Tensor) -> torch.Tensor:
    model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@each_row("loss", LOSSES)
def test_each_token_is_pushed_by_its_own_advantage(loss: str, trainer_of: Any, canned: Any, model: Any):
    """At equal old and new probabilities, the gradient is that of the advantage-weighted log-probabilities."""
    trainer = trainer_of(canned(), loss=loss, clip_high=5.0 if loss == "cispo" else 0.28)
    trainer.current_gradient_accumulation_steps = 1
    prompt, said = torch.tensor([[7, 8, 9]]), torch.tensor([[20, 21, 22, 23, 24, 25]])
    advantages = torch.tensor([[1.0, 1.0, 1.0, -1.0, -1.0, -1.0]])
    ones = torch.ones_like(said)
    batch = {
        "prompt_ids": prompt,
        "prompt_mask": torch.ones_like(prompt),
        "completion_ids": said,
        "completion_mask": ones,
        "tool_mask": ones,
        "advantages": advantages,
        "num_items_in_batch": torch.tensor(6),
    }
    model.train()
    found = _gradients(model, trainer._compute_loss(model, batch))
    logits = model(input_ids=torch.cat([prompt, said], dim=1)).logits[:, 2:-1]
    logprobs = torch.log_softmax(logits, dim=-1).gather(2, said[..., None])[..., 0]
    expected = _gradients(model, -(advantages * logprobs).sum())
    assert torch.cosine_similarity(found, expected, dim=0) > 0.9999


def test_masked_tokens_have_no_gradient(trainer_of: Any, canned: Any, model: Any):
    trainer = trainer_of(canned())
    trainer.current_gradient_accumulation_steps = 1
    ids = torch.tensor([[20, 21, 22]])
    batch = {
        "prompt_ids": torch.tensor([[7]]),
        "prompt_mask": torch.tensor([[1]]),
        "completion_ids": ids,
        "completion_mask": torch.ones_like(ids),
        "tool_mask": torch.zeros_like(ids),
        "advantages": torch.ones(1, 3),
        "num_items_in_batch": torch.tensor(3),
    }
    model.train()
    assert _gradients(model, trainer._compute_loss(model, batch)).abs().max() == 0


# What is refused.


@each_row(
    "settings, message",
    [
        ({"importance_sampling_level": "sequence"}, "averages turn credit away"),
        ({"use_vllm": True, "vllm_importance_sampling_mode": "sequence_mask"}, "token_truncate"),
        ({"use_vllm": True, "vllm_mode": "server"}, "colocate"),
    ],
)
def test_settings_that_lose_turn_credit_are_refused(settings: dict[str, Any], message: str):
    defaults: dict[str, Any] = {
        "importance_sampling_level": "token",
        "vllm_importance_sampling_mode": "token_truncate",
        "vllm_mode": "colocate",
    }
    with pytest.raises(UsageError, match=message):
        refuse(GRPOConfig(output_dir="run", use_cpu=True, bf16=False, **{**defaults, **settings}), {})


@each_row("argument", ["tools", "environment_factory", "rollout_func", "reward_funcs"])
def test_trl_must_not_run_its_own_loop(argument: str, canned: Any):
    from agentgym.trainers.credit import Credit

    settings: dict[str, Any] = {argument: [print]}
    arguments = GRPOConfig(output_dir="run", use_cpu=True, bf16=False, vllm_importance_sampling_mode="token_truncate")
    with pytest.raises(UsageError, match=f"this trainer does not accept {argument}="):
        AgentGRPOTrainer(rollouts=canned(), credit=Credit(), args=arguments, **settings)


def test_our_own_settings_pass_the_guards():
    for use_vllm in (False, True):
        config = TrainConfig(use_vllm=use_vllm, model="some/model", groups=2, group_size=2, updates_per_step=1)
        arguments = grpo_config(config, world_size=1, use_cpu=True)
        refuse(arguments, {})
        assert arguments.importance_sampling_level == "token"
        assert arguments.vllm_importance_sampling_mode == "token_truncate"
