"""From any architecture, what is sampled has the probabilities that the model itself gives it, cached or not."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from agentgym.trainers.passes import SamplingWay
from agentgym.trainers.transformers_policy import TransformersPolicy
from tests.rows import each_row
from tests.trainers.test_transformers_policy import ANSWER, talks

pytestmark = [pytest.mark.nightly, pytest.mark.train]

PROMPTS = [[7, 8, 9], [10, 11, 12, 13, 14] * 4, [20] * 9 + [21] * 5]
"""Longer than the windows below, and then some."""
WINDOWED = {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]}
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}

MODELS: dict[str, tuple[SamplingWay, dict[str, Any]]] = {
    "qwen3": (SamplingWay.PACKED, {}),
    "mistral": (SamplingWay.PACKED, {"sliding_window": 6}),
    "gemma3_text": (SamplingWay.PACKED, WINDOWED),
    "gpt2": (SamplingWay.PACKED, {}),
    "gemma2": (SamplingWay.ALONE, WINDOWED),
    "llama4_text": (SamplingWay.ALONE, {"attention_chunk_size": 6, **EXPERTS, "intermediate_size_mlp": 32}),
    "bloom": (SamplingWay.ALONE, {}),
    "lfm2": (SamplingWay.WHOLE, {"layer_types": ["conv", "full_attention"]}),
    "mamba": (SamplingWay.WHOLE, {"state_size": 4}),
    "qwen3_next": (
        SamplingWay.WHOLE,
        {"layer_types": ["linear_attention", "full_attention"], "num_experts": 2, "num_experts_per_tok": 1}
        | {"moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "linear_num_key_heads": 2}
        | {"linear_num_value_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8},
    ),
}
SMALL = {
    "vocab_size": 48, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip


def made(kind: str) -> Any:
    """A model of a kind, with weights so large that what it sees matters."""
    config = AutoConfig.for_model(kind, **SMALL, **MODELS[kind][1])
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() >= 2:
                weight.normal_(std=0.2)
    return model


@each_row("kind", MODELS)
def test_logprobs_are_those_of_a_plain_forward_pass_whatever_the_layers_see(kind: str):
    model = made(kind)
    policy = TransformersPolicy(model, None, end_ids=[], context=128, slots=2)  # type: ignore[arg-type]
    for prompt, conversation in zip(PROMPTS, talks(policy, PROMPTS), strict=True):
        known = list(prompt)
        for turn in conversation:
            with torch.inference_mode():
                logits = model(input_ids=torch.tensor([known + turn.ids]), use_cache=False).logits[0]
            plain = torch.log_softmax(logits.float(), dim=-1)[len(known) - 1 : -1]
            expected = plain.gather(1, torch.tensor(turn.ids)[:, None])[:, 0].tolist()
            assert turn.logprobs == pytest.approx(expected, abs=1e-3)
            known += turn.ids + ANSWER
    assert policy._way is MODELS[kind][0]
