"""The checkpoints that vLLM loads, and the size of its cache on a CPU."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from agentgym.trainers.policies import load_checkpoint
from agentgym.trainers.vllm import on_cpu as vllm_on_cpu
from agentgym.trainers.vllm.engine import is_checkpoint, servable

pytestmark = [pytest.mark.real, pytest.mark.train]

IDS = torch.tensor([[7, 8, 9, 10]])
QWEN = SimpleNamespace(num_hidden_layers=28, num_key_value_heads=8, num_attention_heads=16, head_dim=128)


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


def test_on_a_cpu_the_cache_holds_the_conversations_and_no_more():
    def cache(dtype: str, at_once: int, share: float = 0.9) -> int:
        arguments = vllm_on_cpu.settings(QWEN, dtype=dtype, context=1024, at_once=at_once, share=share)
        return arguments["kv_cache_memory_bytes"]

    per_token = 2 * 28 * 8 * 128
    assert cache("bfloat16", 8) == 8 * (1024 + 128) * per_token * 2
    assert cache("float32", 8) == 2 * cache("bfloat16", 8)
    assert cache("bfloat16", 8, share=1e-6) == 64 * 2**20
    assert cache("bfloat16", 10**9) < 10**13  # as much as the machine has, not as much as would be needed
