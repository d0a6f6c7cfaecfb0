"""The checkpoints that vLLM loads, and the check that it follows the trainer's weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl.generation import vllm_generation

from agentgym.base.errors import InfrastructureError
from agentgym.trainers.config import load_config
from agentgym.trainers.policies import load_checkpoint
from agentgym.trainers.sampled_batch import SampledBatch
from agentgym.trainers.vllm import on_cpu as vllm_on_cpu
from agentgym.trainers.vllm.engine import is_checkpoint, servable, trl_engine
from agentgym.trainers.vllm.sync import SyncCheck
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]

IDS = torch.tensor([[7, 8, 9, 10]])


def test_a_folder_of_adapters_becomes_a_whole_checkpoint(checkpoint: Path, tokenizer: Any, tmp_path: Path):
    adapted = get_peft_model(
        AutoModelForCausalLM.from_pretrained(checkpoint),
        LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM"),
    )
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.3)
    adapted.save_pretrained(str(tmp_path / "adapters"))
    assert not is_checkpoint(tmp_path / "adapters")

    tokenizer.save_pretrained(tmp_path / "adapters")
    apart = AutoModelForCausalLM.from_pretrained(tmp_path / "adapters")
    merged, _ = load_checkpoint(str(tmp_path / "adapters"))
    with torch.inference_mode():
        expected, plain = adapted.eval()(IDS).logits, AutoModelForCausalLM.from_pretrained(checkpoint)(IDS).logits
        assert not torch.allclose(plain, expected, atol=1e-2)
        for number, model in enumerate([apart, merged]):
            folder = servable(model, tokenizer, tmp_path / f"scratch{number}")
            assert is_checkpoint(Path(folder))
            assert torch.allclose(AutoModelForCausalLM.from_pretrained(folder)(IDS).logits, expected, atol=1e-4)
            assert torch.allclose(model.eval()(IDS).logits, expected, atol=1e-4)  # it is left as it was


def test_arguments_are_passed_on_to_the_engine(checkpoint: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vllm_on_cpu, "is_needed", lambda: False)
    monkeypatch.setattr("trl.generation.vllm_generation.LLM", lambda **arguments: arguments, raising=False)
    model, _ = load_checkpoint(str(checkpoint))
    settings = {"env": "guess", "model": str(checkpoint), "use_vllm": True, "vllm": {"enforce_eager": True}}
    with trl_engine(load_config(None, settings), model, tokenizer):
        arguments = vars(vllm_generation)["LLM"](enforce_eager=False, max_num_seqs=3)
    assert (arguments["enforce_eager"], arguments["max_num_seqs"], arguments["dtype"]) == (True, 3, "bfloat16")


# The check of the weights.


class Weights:
    """Scores each token with a number that stands for the weights, plus the noise of its arithmetic."""

    def __init__(self, noise: float, seed: int):
        self.value = 0.0
        self._noise, self._draw = noise, torch.Generator().manual_seed(seed)

    def __call__(self, conversations: Any) -> torch.Tensor:
        count = sum(len(ids) - 1 for ids in conversations)
        return -1.0 + self.value + self._noise * torch.randn(count, generator=self._draw)


class Run:
    """A trainer whose every update moves log-probabilities by `change`, and an engine that follows while it can."""

    def __init__(self, trajectory: Any, *, change: float, noise: float, follows: int = 1_000):
        self.trainer, self.engine = Weights(0.0, 0), Weights(noise, 1)
        self.check = SyncCheck(self.engine, self.trainer, longest=10)
        self._batch = [trajectory(row, [[20, 21, 22, 23], [24, 25, 5]], 0.0) for row in range(12)]
        self._change, self._follows = change, follows

    def steps(self, count: int) -> int:
        """Run `count` steps and return `count`, unless a check fails."""
        for step in range(count):
            if step < self._follows:
                self.engine.value = self.trainer.value
            self.check.after_update()
            self.check.remember(SampledBatch.of(self._batch))
            self.trainer.value += self._change
        return count


def test_an_engine_that_follows_is_never_accused(trajectory: Any):
    for change in (0.0, 1e-6, 1e-3, 0.05, 0.5):
        for noise in (1e-6, 0.01, 0.05):
            assert Run(trajectory, change=change, noise=noise).steps(40) == 40


@each_row("change, noise", [(1e-4, 1e-6), (0.05, 0.01), (0.2, 0.05)])
def test_an_engine_that_is_cut_off_is_found_at_the_first_update_it_misses(trajectory: Any, change: float, noise: float):
    run = Run(trajectory, change=change, noise=noise, follows=3)
    assert run.steps(3) == 3
    with pytest.raises(InfrastructureError, match="old weights"):
        run.steps(1 + 3)
    with pytest.raises(InfrastructureError, match="old weights"):  # updates below the noise add up
        Run(trajectory, change=0.002, noise=0.02, follows=1).steps(200)


def test_an_engine_with_weights_of_neither_side_is_refused(trajectory: Any):
    run = Run(trajectory, change=0.01, noise=0.001)
    run.steps(2)
    run.engine.value = 3.0
    with pytest.raises(InfrastructureError, match="does not sample from the trainer's weights"):
        run.check.after_update()
