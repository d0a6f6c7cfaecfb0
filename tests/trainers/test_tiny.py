"""The tiny model and its tokenizer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("trl", reason="needs the [train] extra")

import torch

from agentgym.trainers.tiny import TinyShape, tiny_model, tiny_tokenizer

pytestmark = [pytest.mark.real, pytest.mark.train]

SHAPE = TinyShape(vocabulary=320, hidden=32, layers=1, heads=2, feed_forward=64, context=128)


@given(st.text())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_text_survives_the_tokenizer(tokenizer: Any, text: str):
    text = text.encode("utf-8", "ignore").decode()
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False) == text


def test_digits_stay_apart_so_that_numbers_can_be_copied():
    tokenizer = tiny_tokenizer(["1995 1995 1995 films of 1995"] * 50, 400)
    assert tokenizer.tokenize("1995") == ["1", "9", "9", "5"]


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), min_size=1, max_size=3))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_only_what_the_assistant_says_and_its_end_is_learned(tokenizer: Any, pairs: list[tuple[str, str]]):
    messages = [{"role": "system", "content": "Be brief."}]
    for question, answer in pairs:
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    rendered = tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
    learned = [i for i, m in zip(rendered["input_ids"], rendered["assistant_masks"], strict=True) if m]
    expected = [[*tokenizer.encode(answer, add_special_tokens=False), tokenizer.eos_token_id] for _, answer in pairs]
    assert learned == [i for turn in expected for i in turn]


def test_the_same_seed_gives_the_same_weights_and_leaves_global_randomness_alone(tokenizer: Any):
    before = torch.random.get_rng_state()
    first, again, other = (tiny_model(tokenizer, SHAPE, seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
