"""Settings of asynchronous runs, and how a server is started for one."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from agentgym.base.errors import UsageError
from agentgym.trainers.config import load_config
from tests.rows import each_row

ASYNC: dict[str, Any] = {"async_training": True, "model": "some/model"}


@each_row(
    ("settings", "problem"),
    [
        ({"kl_weight": 0.1}, "reference model"),
        ({"entropy_weight": 0.1}, "entropy bonus"),
        ({"loss": "cispo"}, "the loss is one of dapo, grpo, dr_grpo"),
        ({"updates_per_step": 2}, "updates_per_step: 1"),
        ({"epochs_per_step": 2}, "epochs_per_step: 1"),
        ({"use_vllm": True}, "use_vllm: false"),
        ({"max_staleness": 0}, "max_staleness: 1"),
        ({"servers": ["http://a", "http://b"], "lora_rank": 0}, "set lora_rank"),
    ],
)
def test_what_trls_asynchronous_trainer_lacks_is_refused_in_one_line(settings: dict[str, Any], problem: str):
    with pytest.raises(UsageError, match=rf"^asynchronous training: .*{re.escape(problem)}"):
        load_config(None, {**ASYNC, **settings})


def test_the_defaults_of_pretrained_models_and_the_recipes_of_small_ones_can_be_asynchronous():
    assert load_config(None, ASYNC).updates_per_step == 1
    for recipe in ("sql-smollm2", "code-smollm2", "search-smollm2"):
        assert load_config(recipe, {"async_training": True}).async_training


def test_a_server_gets_the_settings_of_its_run_as_options():
    torch = pytest.importorskip("torch", reason="needs the [train] extra")
    from agentgym.trainers.asynchronous.server import as_options, server_settings

    class Shape:
        num_key_value_heads, num_attention_heads, num_hidden_layers, head_dim, hidden_size = 2, 2, 2, 32, 64

    config = load_config(None, {**ASYNC, "lora_rank": 24, "max_staleness": 3, "context": 512, "bf16": False})
    options = as_options(server_settings(config, Shape))
    pairs = dict(pairwise(options))
    assert {name: pairs[f"--{name}"] for name in ("max-lora-rank", "max-loras", "max-model-len", "dtype")} == {
        "max-lora-rank": "32", "max-loras": "5", "max-model-len": "512", "dtype": "float32",
    }  # fmt: skip
    assert {"--enable-lora", "processed_logprobs"} <= {*options}
    assert ("--enforce-eager" in options) == (not torch.cuda.is_available())
