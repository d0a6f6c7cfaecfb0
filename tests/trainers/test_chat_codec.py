"""Conversations rendered piece by piece have exactly the tokens of the conversation rendered as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.base.errors import UsageError
from agentgym.core.messages import Message
from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.tiny import tiny_tokenizer
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
FORGETFUL = CHATML.replace(
    "{% for message in messages", "{% for message in (messages[-1:] if messages|length > 2 else messages)"
)
SHOUTING = CHATML.replace(
    "message.content + '<|im_end|>", "(message.content + (' (old)' if not loop.last else '')) + '<|im_end|>"
)
ENDLESS = CHATML.replace("+ '<|im_end|>\n'", "+ '\n'")

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\u2042"), max_size=30).map(str.strip).filter(bool)
ANSWER = st.tuples(st.sampled_from(["user", "tool"]), TEXT)


def chatml(template: str) -> Any:
    """A tokenizer like those of the Qwen family."""
    tokenizer = tiny_tokenizer(["Hello there"], 320)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.eos_token = "<|im_end|>"
    tokenizer.chat_template = template
    return tokenizer


@pytest.fixture(scope="module")
def qwen_like() -> Any:
    return chatml(CHATML)


def shipped(name: str) -> str:
    return (files("trl") / "chat_templates" / name).read_text(encoding="utf-8")


def opening() -> list[Message]:
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Find 7."}]


def said(tokenizer: Any, text: str) -> list[int]:
    return [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]


def piecewise(codec: ChatCodec, turns: Sequence[tuple[str, list[Message]]]) -> list[int]:
    """The tokens of a rollout: opening, then sampled and observed tokens in turn."""
    ids = codec.open(opening(), [])
    for text, answers in turns:
        sampled = said(codec.tokenizer, text)
        ids += sampled + codec.extend(answers, sampled[-1])
    return ids


def at_once(tokenizer: Any, turns: Sequence[tuple[str, list[Message]]]) -> list[int]:
    messages: list[Any] = opening()
    for text, answers in turns:
        messages += [{"role": "assistant", "content": text}, *answers]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return tokenizer.encode(text, add_special_tokens=False)


CONVERSATIONS = st.lists(
    st.tuples(TEXT, ANSWER.map(lambda pair: [{"role": pair[0], "content": pair[1]}])), min_size=1, max_size=3
)


@given(CONVERSATIONS, st.booleans())
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_template_extends_to_what_it_renders_as_a_whole(tokenizer: Any, qwen_like: Any, turns: Any, is_tiny: bool):
    it = tokenizer if is_tiny else qwen_like
    assert piecewise(ChatCodec(it), turns) == at_once(it, turns)


@each_row("name", ["qwen2_5.jinja", "qwen3.jinja", "qwen3_instruct_2507.jinja"])
@each_row("role", ["user", "tool"])
def test_templates_of_the_qwen_family_extend(name: str, role: str):
    """Qwen3 renders the last turn of the assistant with thoughts and earlier ones without; what follows is the same."""
    tokenizer = chatml(shipped(name))
    turns: Any = [("Is it 5?", [{"role": role, "content": "Higher."}])]
    text = tokenizer.decode(piecewise(ChatCodec(tokenizer), turns))
    assert text == tokenizer.decode(at_once(tokenizer, turns))
    assert text.endswith("<|im_end|>\n<|im_start|>assistant\n")


def test_arguments_of_the_template_reach_every_turn():
    codec = ChatCodec(chatml(shipped("qwen3.jinja")), template_kwargs={"enable_thinking": False})
    closed = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    assert codec.tokenizer.decode(codec.open(opening(), [])).endswith(closed)
    glue = codec.extend([{"role": "user", "content": "Higher."}], codec.end_id)
    assert codec.tokenizer.decode(glue).endswith(closed)


def test_a_turn_that_was_cut_off_is_ended_for_the_model(tokenizer: Any):
    codec = ChatCodec(tokenizer)
    answer: list[Message] = [{"role": "user", "content": "Go on."}]
    cut = codec.extend(answer, last_id=tokenizer.encode("a")[0])
    assert cut == [codec.end_id, *codec.extend(answer, last_id=codec.end_id)]


def test_special_tokens_that_the_policy_samples_are_seen():
    codec = ChatCodec(chatml(CHATML))
    start, end = codec.tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    assert codec.decode([start, *codec.tokenizer.encode("user"), end]) == "<|im_start|>user"


def test_a_tokenizer_adds_no_begin_token_within_a_conversation():
    from tokenizers.processors import TemplateProcessing

    codec = ChatCodec(chatml(CHATML))
    start = codec.tokenizer.convert_tokens_to_ids("<|im_start|>")
    codec.tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", start)]
    )
    assert codec.tokenizer.encode("a")[0] == start
    assert codec.open(opening(), []).count(start) == 3
    assert codec.extend([{"role": "user", "content": "Higher."}], codec.end_id).count(start) == 2


@each_row("template", [FORGETFUL, SHOUTING, ENDLESS])
def test_a_template_that_cannot_be_extended_is_refused(template: str):
    with pytest.raises(UsageError, match="cannot be extended"):
        ChatCodec(chatml(template))
