"""Settings that a run passes on: which keys are refused, and how flags and recipes add up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from agentgym.base.errors import UsageError
from agentgym.trainers.command import app, overrides_of
from agentgym.trainers.config import FIELDS, load_config
from agentgym.trainers.passed_on import MAPPINGS, check_kinds, kinds_of, owned_by_run
from agentgym.trainers.run_folder import KEPT
from tests.rows import each_row


@each_row(
    "name, values, message",
    [
        ("trl", {"learning_rate": 1e-5}, "trl: 'learning_rate' is decided by our setting learning_rate"),
        ("trl", {"generation_batch_size": 8}, r"decided by our setting groups \(--groups\)"),
        ("trl", {"loss_type": "grpo"}, r"decided by our setting loss \(--loss\)"),
        ("trl", {"importance_sampling_level": "sequence"}, "cannot be changed: it would discard the credit of turns"),
        ("trl", {"scale_rewards": "group"}, "cannot be changed: advantages come from --credit"),
        ("trl", {"vllm_tensor_parallel_size": 2}, r"decided by our setting vllm \(--vllm\)"),
        ("vllm", {"max_model_len": 99}, r"decided by our setting context \(--context\)"),
        ("vllm", {"tensor_parallel_size": 2}, "an engine in a training process has one GPU"),
        ("vllm", {"enforce_eager": True}, "vllm has no effect while use_vllm is false"),
        ("model_kwargs", {"attn_implementatio": "sdpa"}, "unknown key 'attn_implementatio'; did you mean 'attn_impl"),
        ("model_kwargs", {"attn_implementation": 2}, "'attn_implementation': Input should be a valid string, got 2"),
        ("model_kwargs", {"dtype": "int8"}, "dtype must be one of float32, bfloat16, float16, not 'int8'"),
    ],
)
def test_a_key_that_is_not_passed_on_gets_a_line_with_the_reason(name: str, values: dict[str, Any], message: str):
    with pytest.raises(UsageError, match=message) as caught:
        load_config(None, {"env": "guess", "model": "some/model", name: values})
    assert "\n" not in str(caught.value)


def test_the_tiny_model_takes_no_arguments_for_loading():
    with pytest.raises(UsageError, match="model_kwargs are for pretrained models"):
        load_config(None, {"env": "guess", "model_kwargs": {"dtype": "bfloat16"}})


def test_owners_of_refused_keys_are_settings():
    from agentgym.trainers import passed_on

    owners = passed_on._TRL_OWNED.keys() | passed_on._VLLM_OWNED.keys()
    assert owners <= FIELDS.keys()
    assert "max_steps" in owned_by_run("trl")


@dataclass
class Receiver:
    share: float = 0.0
    unknown: OnlyForCheckers | None = None  # type: ignore[name-defined]  # noqa: F821


def test_a_type_that_only_checkers_know_accepts_anything():
    assert kinds_of(Receiver) == {"share": float, "unknown": Any}
    check_kinds("vllm", {"unknown": {"a": 1}}, kinds_of(Receiver))


def test_values_have_the_types_of_the_receiver():
    check_kinds("trl", {"share": 1, "name": None}, {"share": float, "name": str | None})
    with pytest.raises(UsageError, match="trl: 'share': Input should be a valid number, got '1'"):
        check_kinds("trl", {"share": "1"}, {"share": float})


def test_flags_add_keys_to_those_of_the_recipe(tmp_path: Path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("model: some/model\ntrl: {optim: sgd, adam_beta2: 0.9}\n")
    words = ["--trl", "adam-beta2=0.95", "--trl", "tf32=true", "--model-kwargs", "attn_implementation=sdpa"]
    options = dict(get_command(app).make_context("train", words).params)
    overrides = overrides_of({name: options[name] for name in MAPPINGS}, ())
    assert overrides == {
        "trl": {"adam_beta2": 0.95, "tf32": True},
        "model_kwargs": {"attn_implementation": "sdpa"},
    }
    assert load_config(str(recipe), overrides).trl == {"optim": "sgd", "adam_beta2": 0.95, "tf32": True}


def test_a_resumed_run_keeps_how_its_model_is_loaded():
    assert set(MAPPINGS) & KEPT == {"model_kwargs"}
