"""What `trl_seam` takes for granted about TRL. If one of these fails, this TRL cannot be used."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch
import trl.trainer.utils as trl_utils
from trl import GRPOConfig, GRPOTrainer  # pyright: ignore[reportPrivateImportUsage]

import agentgym.trainers
from agentgym.base.errors import UsageError
from agentgym.trainers.config import LOSSES
from agentgym.trainers.credit import Credit
from agentgym.trainers.grpo import AgentGRPOTrainer, refuse
from agentgym.trainers.trl_seam import TokenGRPOTrainer, score_labels_only, without_labels
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]


# Private names.


def private_names() -> set[str]:
    """The private names of TRL's trainer and the classes it inherits from."""
    sources = [inspect.getsource(kind) for kind in GRPOTrainer.__mro__ if kind.__module__.startswith(("trl", "transf"))]
    attributes = re.findall(r"\bself\.(_[a-z]\w+)", "\n".join(sources))
    return {*attributes, *(name for name in dir(GRPOTrainer) if re.match(r"_[a-z]", name))}


def private_uses(tree: ast.Module) -> Iterator[str]:
    """Imports beyond `trl`'s public names, and private names on other objects than `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "trl")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "trl":
            yield from (f"{node.module}.{a.name}" for a in node.names if node.module != "trl" or a.name[0] == "_")
        elif (
            isinstance(node, ast.Attribute)
            and node.attr.startswith("_")
            and not (isinstance(node.value, ast.Name) and node.value.id == "self")
        ):
            yield node.attr


def test_no_other_module_uses_private_names_of_trl():
    theirs = private_names()
    assert {"_metrics", "_prepare_inputs", "_generate_and_score_completions"} <= theirs
    room = Path(agentgym.trainers.__file__).parent
    uses = {
        (path.name, name)
        for path in room.rglob("*.py")
        if path.name not in ("trl_seam.py", "async_seam.py")
        for name in private_uses(ast.parse(path.read_text(encoding="utf-8")))
        if name in theirs or name == "trl" or name.startswith("trl.")
    }
    assert uses == set()


def test_the_subclasses_hide_no_private_name_of_trl():
    source = inspect.getsource(AgentGRPOTrainer) + inspect.getsource(TokenGRPOTrainer.__init__)
    ours = {*re.findall(r"\bself\.(_[a-z]\w+)", source), *re.findall(r"def (_[a-z]\w+)", source)}
    assert "_credit" in ours
    assert not ours & private_names()


# How rows come, and what goes back.


def test_rows_come_in_contiguous_groups(trainer_of: Any, canned: Any):
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


def test_masks_columns_and_logprobs_of_a_rollout_reach_the_batch(trainer_of: Any, canned: Any):
    trainer = trainer_of(canned())
    trainer.train()
    [batch] = trainer.batches
    assert batch["completion_ids"][0].tolist() == [20, 21, 40, 41, 22, 5]
    assert (batch["completion_mask"] * batch["tool_mask"])[0].tolist() == [1, 1, 0, 0, 1, 1]
    assert batch["prompt_ids"][0][batch["prompt_mask"][0] == 1].tolist() == [7, 8, 9]
    assert "sampling_per_token_logps" in batch
    assert [row["trajectory"].id for row in batch["rows"]] == [f"t{i}" for i in range(8)]
    assert trainer.state.log_history[0]["reward"] == pytest.approx(1 / 8)


# Advantages per token.


def gradients(model: Any, loss: torch.Tensor) -> torch.Tensor:
    model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def loss_of(trainer: Any, model: Any, advantages: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The loss of one row whose completion is 20, 21, ..."""
    trainer.current_gradient_accumulation_steps = 1
    prompt, completion = torch.tensor([[7, 8, 9]]), torch.arange(20, 20 + mask.shape[1])[None]
    model.train()
    return trainer.compute_loss(
        model,
        {
            "row": torch.tensor([0]),
            "prompt_ids": prompt,
            "prompt_mask": torch.ones_like(prompt),
            "completion_ids": completion,
            "completion_mask": torch.ones_like(completion),
            "tool_mask": mask,
            "advantages": advantages,
            "num_items_in_batch": torch.tensor(mask.numel()),
        },
    )


@each_row("loss", LOSSES)
def test_each_token_is_pushed_by_its_own_advantage(loss: str, trainer_of: Any, canned: Any, model: Any):
    """At equal old and new probabilities, the gradient is that of the advantage-weighted log-probabilities."""
    trainer = trainer_of(canned(), loss=loss, clip_high=5.0 if loss == "cispo" else 0.28)
    advantages = torch.tensor([[1.0, 1.0, 1.0, -1.0, -1.0, -1.0]])
    actual = gradients(model, loss_of(trainer, model, advantages, torch.ones(1, 6, dtype=torch.long)))
    completion = torch.arange(20, 26)[None]
    logits = model(input_ids=torch.cat([torch.tensor([[7, 8, 9]]), completion], dim=1)).logits[:, 2:-1]
    logprobs = torch.log_softmax(logits, dim=-1).gather(2, completion[..., None])[..., 0]
    expected = gradients(model, -(advantages * logprobs).sum())
    assert torch.cosine_similarity(actual, expected, dim=0) > 0.9999


def test_masked_tokens_have_no_gradient(trainer_of: Any, canned: Any, model: Any):
    loss = loss_of(trainer_of(canned()), model, torch.ones(1, 3), torch.zeros(1, 3, dtype=torch.long))
    assert gradients(model, loss).abs().max() == 0


# Refused settings.

DEFAULTS: dict[str, Any] = {
    "importance_sampling_level": "token",
    "vllm_importance_sampling_correction": False,
    "vllm_mode": "colocate",
}


@each_row(
    "settings, message",
    [
        ({"importance_sampling_level": "sequence"}, "importance_sampling_level"),
        ({"use_vllm": True, "vllm_importance_sampling_correction": True}, "must be False"),
        ({"use_vllm": True, "vllm_mode": "server"}, "colocate"),
    ],
)
def test_settings_that_lose_turn_credit_are_refused(settings: dict[str, Any], message: str):
    with pytest.raises(UsageError, match=message):
        refuse(GRPOConfig(output_dir="run", use_cpu=True, bf16=False, **{**DEFAULTS, **settings}), {})


@each_row("argument", ["environment_factory", "reward_funcs"])
def test_arguments_for_the_loop_of_trl_are_refused(argument: str, canned: Any):
    settings: dict[str, Any] = {argument: [print]}
    arguments = GRPOConfig(output_dir="run", use_cpu=True, bf16=False)
    with pytest.raises(UsageError, match=f"this trainer does not accept {argument}="):
        AgentGRPOTrainer(rollouts=canned(), credit=Credit(), args=arguments, **settings)


# The fused head.


def scored(model: Any, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return model(input_ids=ids, labels=labels, fused_lm_head=True).log_probs


def test_scores_and_gradients_do_not_change(model: Any, monkeypatch: pytest.MonkeyPatch):
    trl_utils.add_fused_lm_head(model)
    ids = torch.arange(24).reshape(2, 12)
    labels = ids.clone()
    labels[:, 3:8] = -100
    results = []
    for compact in (False, True):
        monkeypatch.setattr(trl_utils, "_use_triton", lambda device: False)
        if compact:
            score_labels_only()
        scores = scored(model, ids, labels)
        results.append((scores.detach(), gradients(model, scores.sum())))
    assert torch.allclose(results[0][0], results[1][0], atol=1e-5)
    assert torch.allclose(results[0][1], results[1][1], atol=1e-4)


def test_masked_tokens_score_zero_and_the_rest_the_same(model: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trl_utils, "_use_triton", lambda device: True)
    trl_utils.add_fused_lm_head(model)
    ids = torch.arange(24).reshape(2, 12)
    mask = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 0]])
    whole = scored(model, ids, ids)
    with without_labels(model, mask):
        partial = scored(model, ids, ids)
    assert torch.equal(partial[:, -4:] == 0, mask == 0)
    assert torch.allclose(partial[:, -4:][mask == 1], whole[:, -4:][mask == 1], atol=1e-5)
    assert torch.allclose(scored(model, ids, ids), whole)
