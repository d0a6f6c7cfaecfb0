"""The arguments that a model is evaluated with when the user leaves them open, and the precision of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the [train] extra")

import torch

from agentgym.base.errors import UsageError
from agentgym.trainers.config import load_config
from agentgym.trainers.policies import default_dialect, describe_training, load_model, training_arguments
from agentgym.trainers.precision import of_this_machine
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]


def test_a_model_trained_here_is_evaluated_as_it_was_trained(tmp_path):
    describe_training(tmp_path, "sql", {"dialect": "tags", "difficulty": [2]})
    assert training_arguments(str(tmp_path), "agentgym/sql-v0") == {"dialect": "tags", "difficulty": [2]}
    assert training_arguments(str(tmp_path), "guess") == {"dialect": "tags"}
    assert default_dialect(str(tmp_path)) == "tags"


def test_the_tiny_model_is_evaluated_under_the_recipe_it_is_made_by():
    recipe = load_config(None, {"env": "sql"}).env_kwargs
    assert training_arguments("tiny", "agentgym/sql-v0") == recipe | {"dialect": "compact"}


def test_a_model_from_elsewhere_speaks_hermes(tmp_path):
    assert training_arguments(str(tmp_path), "sql") == {"dialect": "hermes"}


@each_row("content", ["", "[]", '{"env": "sql", "env_kwargs": []}'])
def test_a_file_beside_a_model_that_training_did_not_write_is_named(tmp_path, content: str):
    (tmp_path / "agentgym.json").write_text(content)
    with pytest.raises(UsageError, match=r"agentgym\.json: training did not write this file"):
        default_dialect(str(tmp_path))


def test_a_model_s_folder_cannot_choose_a_module_to_import(tmp_path):
    describe_training(tmp_path, "sql", {"dialect": "evil_dialect:Evil"})
    with pytest.raises(UsageError, match="if you trust it, pass --dialect evil_dialect:Evil"):
        default_dialect(str(tmp_path))


@each_row("is_fast", [True, False])
def test_bfloat16_is_computed_in_only_where_it_is_not_emulated(monkeypatch: pytest.MonkeyPatch, is_fast: bool):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: is_fast)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    assert of_this_machine(load_config("sql-smollm2"), "cpu").bf16 == is_fast


def test_a_model_is_loaded_as_the_run_asks(checkpoint: Path):
    def loaded(**model_kwargs: str) -> tuple[torch.dtype, str]:
        settings = {"env": "guess", "model": str(checkpoint), "lora_rank": 0, "model_kwargs": model_kwargs}
        model, _ = load_model(load_config(None, settings))
        return model.dtype, model.config._attn_implementation

    assert loaded() == (torch.float32, "sdpa")
    assert loaded(dtype="bfloat16", attn_implementation="eager") == (torch.bfloat16, "eager")
    with pytest.raises(UsageError, match=r"cannot load model .*: .*nonsense"):
        loaded(attn_implementation="nonsense")
