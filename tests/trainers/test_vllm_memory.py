"""The share of memory of an engine in a training process, and what is said about its cache."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the [train] extra")

import torch

from agentgym.trainers.config import TrainConfig, load_config
from agentgym.trainers.cost.shapes import shape_named
from agentgym.trainers.dry_run import shape_config
from agentgym.trainers.vllm.memory import cache_text, cache_tokens, with_memory
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]


def run(**settings: Any) -> TrainConfig:
    settings = {"env": "guess", "model": "some/model", "use_vllm": True, "context": 8192, "micro_batch": 1} | settings
    return load_config(None, settings)


@each_row(
    "model, settings, share",
    [
        ("Qwen3-0.6B", {}, 0.85),
        ("Qwen3-8B", {}, 0.69),
        ("Qwen3-8B", {"lora_rank": 0}, 0.2),
        ("Qwen3-1.7B", {"lora_rank": 0, "track_kl": False}, 0.53),
        ("Qwen3-1.7B", {"lora_rank": 0}, 0.44),
        ("Qwen3-8B", {"vllm_memory": 0.5}, 0.5),
        ("Qwen3-8B", {"use_vllm": False}, None),
    ],
)
def test_an_engine_gets_what_training_leaves(
    monkeypatch: pytest.MonkeyPatch, model: str, settings: dict[str, Any], share: float | None
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: SimpleNamespace(total_memory=79 * 2**30))
    assert with_memory(run(**settings), shape_config(shape_named(model))).vllm_memory == share


def test_on_a_cpu_the_share_is_a_limit():
    assert with_memory(run(), shape_config(shape_named("Qwen3-8B"))).vllm_memory == 0.3


def test_a_cache_that_is_too_small_for_the_episodes_of_a_process_is_a_warning():
    cache = SimpleNamespace(num_gpu_blocks=4096, block_size=16)
    tokens = cache_tokens(SimpleNamespace(vllm_config=SimpleNamespace(cache_config=cache)))
    assert tokens == 65_536
    assert cache_text(65_536, 8192, 8, 0.4) == (
        "vLLM's cache holds 65,536 tokens at vllm_memory 0.4: 8 whole episodes of 8,192; up to 8 run at once"
    )
    assert "[yellow]" in cache_text(65_536, 8192, 9, None)
    assert "Raise --vllm-memory" in cache_text(65_536, 8192, 9, None)


@each_row("engine", [object(), SimpleNamespace(vllm_config=SimpleNamespace(cache_config=SimpleNamespace()))])
def test_an_engine_may_not_report_its_cache(engine: Any):
    assert cache_tokens(engine) is None
