"""The cost model: what can be checked without a GPU, which are counts of weights, operations and saved bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the [train] extra")

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM

from agentgym.trainers.adapters import lora
from agentgym.trainers.cost.estimate import Plan, layer_activations, training_memory
from agentgym.trainers.cost.gpus import GPUS
from agentgym.trainers.cost.shapes import ModelShape, published, published_weights, shape_named, shape_of
from agentgym.trainers.dry_run import shape_config
from agentgym.trainers.precision import count_weights
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]

SMALL = ModelShape("qwen3", 320, 128, 3, 4, 2, 64, 256, tied=True, positions=512)
TOKENS = 128


@each_row("name", published())
def test_the_weights_of_published_models_are_those_that_transformers_counts(name: str):
    shape = shape_named(name)
    assert shape.weights == published_weights(name) == count_weights(shape_config(shape))
    assert shape_of(shape_config(shape)) == shape


def made(shape: ModelShape, *, rank: int = 0, dtype: torch.dtype = torch.float32) -> Any:
    config = shape_config(shape)
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    if rank:
        from peft import get_peft_model

        model = get_peft_model(model, lora(rank, rank))
        model.enable_input_require_grads()
    return model


@each_row("kind", ["qwen3", "qwen2", "llama"])
def test_operations_are_those_that_torch_counts(kind: str):
    """Eager attention computes all pairs of positions."""
    shape = replace(SMALL, kind=kind)
    model = made(shape)
    ids = torch.arange(TOKENS)[None] % shape.vocabulary
    with FlopCounterMode(display=False) as forward:
        loss = model(input_ids=ids).logits.float().logsumexp(-1).sum()
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    assert forward.get_total_flops() == TOKENS * shape.forward_flops(TOKENS)
    assert forward.get_total_flops() + backward.get_total_flops() == TOKENS * shape.learning_flops(TOKENS)


def test_operations_with_adapters_are_those_that_torch_counts():
    model = made(SMALL, rank=8)
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == SMALL.lora_weights(8)
    with FlopCounterMode(display=False) as counter:
        model(input_ids=torch.arange(TOKENS)[None]).logits.float().logsumexp(-1).sum().backward()
    assert counter.get_total_flops() == TOKENS * SMALL.learning_flops(TOKENS, 8)


def saved_bytes(shape: ModelShape, tokens: int, *, rank: int) -> int:
    """Return the bytes that autograd saves in the layers of a model, without its weights."""
    model = made(shape, rank=rank, dtype=torch.bfloat16 if rank else torch.float32)
    inner = model.get_base_model().model if rank else model.model
    inner.config._attn_implementation = "sdpa"
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    storages: dict[int, Any] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            storages[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), torch.autocast("cpu", torch.bfloat16):
        hidden = inner(input_ids=torch.arange(tokens)[None]).last_hidden_state
    total = sum(storage.nbytes() for storage in storages.values())
    del hidden
    return total


@each_row("rank", [0, 8])
def test_activations_of_a_layer_are_those_that_autograd_saves(rank: int):
    """Differences of tokens and of layers, so that copies of weights and the embedding do not count."""
    of = {(n, t): saved_bytes(replace(SMALL, layers=n), t, rank=rank) for n in (1, 3) for t in (TOKENS, 2 * TOKENS)}
    per_token = (of[3, 2 * TOKENS] - of[1, 2 * TOKENS] - of[3, TOKENS] + of[1, TOKENS]) / (2 * TOKENS)
    assert layer_activations(SMALL, lora=bool(rank)) == pytest.approx(per_token, rel=0.1)


def test_weights_gradients_and_moments_take_the_bytes_of_their_tensors():
    shape = replace(SMALL, layers=2)
    for rank in (0, 8):
        model = made(shape, rank=rank, dtype=torch.bfloat16 if rank else torch.float32)
        trained = [p for p in model.parameters() if p.requires_grad]
        for weight in trained:
            weight.grad = torch.zeros_like(weight)
        optimizer = torch.optim.AdamW(trained)
        optimizer.step()
        moments = sum(t.nbytes for state in optimizer.state.values() for t in state.values() if t.dim())
        memory = training_memory(Plan(shape, GPUS["h100"], lora_rank=rank))
        weights = sum(p.nbytes for p in model.parameters())
        autocast_copies = 0 if rank else 2 * shape.weights
        assert memory.weights == weights + autocast_copies
        assert (memory.gradients, memory.optimizer) == (sum(p.nbytes for p in trained), moments)


def test_a_configuration_of_another_family_has_no_shape(tmp_path: Path):
    assert shape_of(AutoConfig.for_model("gpt2")) is None
