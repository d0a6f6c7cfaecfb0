"""Broken checkpoints are refused in one line, so that no run uses random weights."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch
from transformers import LlamaConfig, LlamaForCausalLM, LlamaModel

from agentgym.base.errors import UsageError
from agentgym.trainers.adapters import with_adapters
from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.policies import (
    check_model,
    end_tokens,
    load_checkpoint,
    make_policy,
)
from agentgym.trainers.template_dialect import load
from agentgym.trainers.transformers_policy import Sampling
from tests.chat_templates import tokenizer_of
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]


def config(**settings: Any) -> LlamaConfig:
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    return LlamaConfig(**{"vocab_size": len(tokenizer_of("qwen3")), **shape, **settings})


def saved(folder: Path, model: Any = None) -> Path:
    (model or LlamaForCausalLM(config())).save_pretrained(folder)
    tokenizer_of("qwen3").save_pretrained(folder)
    return folder


def reconfigured(folder: Path, **settings: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    return folder


@each_row("tied", [True, False])
def test_a_whole_checkpoint_is_loaded(tmp_path: Path, tied: bool):
    model, _ = load_checkpoint(str(saved(tmp_path, LlamaForCausalLM(config(tie_word_embeddings=tied)))))
    assert isinstance(model, LlamaForCausalLM)


def headless(folder: Path) -> None:
    saved(folder, LlamaModel(config()))


def cut_off(folder: Path) -> None:
    weights = saved(folder) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])


@each_row(
    "spoil, message",
    [
        (headless, r"1 of its weights are missing, such as 'lm_head\.weight'"),
        (lambda folder: reconfigured(saved(folder), num_hidden_layers=3), "18 of its weights are missing"),
        (lambda folder: reconfigured(saved(folder), hidden_size=32), "have another shape"),
        (cut_off, r"cannot load model .*\. Give"),
        (lambda folder: (folder / "adapter_config.json").write_text("{}"), "does not say which model its adapters"),
    ],
)
def test_a_checkpoint_with_a_fault_is_refused(tmp_path: Path, spoil: Any, message: str):
    spoil(tmp_path)
    with pytest.raises(UsageError, match=message):
        load_checkpoint(str(tmp_path))


def adapters(base: str | Path, folder: Path, size: float = 0.5) -> Any:
    """Leave adapters, their tokenizer and nothing else in a folder, as a run with LoRA does; return the whole model."""
    adapted = with_adapters(load_checkpoint(str(base))[0], 2, 4, 0)
    with torch.no_grad():
        for key, weight in adapted.named_parameters():
            if "lora_B" in key:
                weight.fill_(size)
    adapted.save_pretrained(folder)
    tokenizer_of("qwen3").save_pretrained(folder)
    return adapted.eval()


def test_adapters_are_loaded_into_the_model_that_they_belong_to(tmp_path: Path):
    base, folder = saved(tmp_path / "base"), tmp_path / "model"
    adapted = adapters(base, folder)
    model, _ = load_checkpoint(str(folder))

    @torch.inference_mode()
    def logits(model: Any) -> torch.Tensor:
        return model(torch.tensor([[5, 6, 7]])).logits

    assert torch.allclose(logits(model), logits(adapted), atol=1e-4)
    assert not torch.allclose(logits(model), logits(load_checkpoint(str(base))[0]), atol=1e-2)
    check_model(TrainConfig(env="guess", model=str(folder), warm_start_steps=0))


def test_code_in_a_checkpoint_is_neither_run_nor_asked_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def asked(*args: Any) -> str:
        raise AssertionError("asked at the terminal")

    monkeypatch.setattr("builtins.input", asked)
    code = {"model_type": "mine", "auto_map": {"AutoConfig": "mine.C", "AutoModelForCausalLM": "mine.M"}}
    folder = reconfigured(saved(tmp_path), **code)
    with pytest.raises(UsageError, match="custom code"):
        load_checkpoint(str(folder))
    load(f"template:{folder}")


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused_where_one_is_written():
    policy = make_policy(LlamaForCausalLM(config(vocab_size=200)), tokenizer_of("qwen3"), name="m")
    with pytest.raises(UsageError, match="token 319, but the model has 200"):
        asyncio.run(policy.generate([5, 6, 319], 3, "s"))


@each_row("value, temperature", [(float("nan"), 0.0), (float("nan"), 1.0), (float("inf"), 1.0)])
def test_probabilities_that_are_no_numbers_stop_the_run(value: float, temperature: float):
    model = LlamaForCausalLM(config(vocab_size=400, tie_word_embeddings=False))
    with torch.no_grad():
        model.lm_head.weight[7].fill_(value)
    policy = make_policy(model, tokenizer_of("qwen3"), name="m", sampling=Sampling(temperature))
    with pytest.raises(UsageError, match=r"probabilities of 'm' are not numbers"):
        asyncio.run(policy.generate([5, 6, 319], 3, "s"))


def test_without_an_end_token_of_the_tokenizer_that_of_the_template_ends_turns():
    tokenizer = tokenizer_of("qwen3")
    tokenizer.eos_token = None
    codec = ChatCodec(tokenizer, end_ids=end_tokens(LlamaForCausalLM(config()), tokenizer))
    assert codec.end_id == tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert None not in codec.end_ids


@each_row("name", ["gemma3", "phi3", "llama3_1", "gptoss", "qwen3"])
def test_a_turn_ends_as_the_template_ends_it_and_reads_back(name: str):
    """A warm start teaches the end token of the template, which may differ from that of the tokenizer."""
    tokenizer = tokenizer_of(name)
    codec = ChatCodec(tokenizer)
    written = tokenizer.apply_chat_template(
        [{"role": "user", "content": "?"}, {"role": "assistant", "content": "Hello."}], tokenize=False
    )
    assert tokenizer.decode(codec.say("Hello.")) in written
    assert codec.decode(codec.say("Hello.")) == "Hello."
