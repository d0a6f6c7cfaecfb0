"""A dry run: the whole path of a run with a real model's shape, without its weights, a GPU or a hub."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

from rich.console import Console

from agentgym.base.errors import UsageError
from agentgym.trainers import dry_run as module
from agentgym.trainers.config import bundled_recipes, load_config
from agentgym.trainers.cost.shapes import ModelShape, shape_named
from agentgym.trainers.dry_run import dry_run, random_model, shape_of_model
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]

SMALL = ModelShape("qwen3", 4096, 32, 7, 2, 1, 32, 64, tied=True, positions=4096)
REAL = [name for name in bundled_recipes() if "qwen3" in name]


def test_a_dry_run_plays_a_group_takes_a_step_and_estimates_the_run(
    letters: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(module, "shape_of_model", lambda config: SMALL)
    settings = {"use_vllm": True, "vllm": {"enforce_eager": True}, "warm_start_steps": 5, "context": 512}
    config = load_config("sql-qwen3-lora", {"env": "letters_env:LettersEnv", "micro_batch": 1, **settings})
    output = Console(file=io.StringIO(), width=200)
    dry_run(config, output)
    text = output.file.getvalue()  # type: ignore[attr-defined]
    assert "A dry run with 2 of 7 layers and random weights: " in text
    assert "Played 2 episodes with " in text
    assert "gradient norm 0," not in text
    assert "LoRA of rank 32, 1 GPU, 1 row of 512 tokens in a pass" in text
    assert "nothing here was measured on a GPU" in text
    assert not list(tmp_path.glob("runs*"))


@each_row("name", REAL)
def test_the_shapes_of_recipes_for_real_models_are_known(name: str):
    config = load_config(name)
    assert shape_of_model(config) == shape_named(config.model)


def test_a_vocabulary_that_takes_too_much_memory_is_cut(monkeypatch: pytest.MonkeyPatch):
    config = load_config("sql-qwen3-full")
    assert random_model(config, SMALL, 100).config.vocab_size == 4096
    monkeypatch.setattr(module, "_MOST_BYTES", 16 * replace(SMALL, layers=2).weights - 1)
    assert random_model(config, SMALL, 100).config.vocab_size == 100
    assert random_model(replace(config, lora_rank=8), SMALL, 100).config.vocab_size == 4096


@each_row(
    "model, message",
    [("tiny", "a dry run is for pretrained models"), ("some/model", "the shape of model 'some/model' is not known")],
)
def test_a_model_without_a_known_shape_is_refused(model: str, message: str):
    with pytest.raises(UsageError, match=message):
        dry_run(load_config(None, {"env": "guess", "model": model}))
