"""Rendered conversations contain all text, whatever a chat template drops or rejects."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.base.errors import UsageError
from agentgym.core.messages import Message, assistant, text_of, tool_result, user, with_pictures
from agentgym.core.messages import ToolCall as Call
from agentgym.trainers.chat import ChatCodec, Renderer
from tests.chat_templates import tokenizer_of
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]

ALL = tuple(
    """
    cohere cohere2 deepseek_r1_distill deepseekv3 gemma gemma3 gptoss lfm2 lfm2_2_5 llama3 llama3_1 llama3_2
    nemotron_3_nano phi3 phi3_5 qwen2_5 qwen2_5_vl qwen3 qwen3_5_nothink qwen3_5_think qwen3_8 qwen3_instruct_2507
    qwen3_vl idefics3
    """.split()  # noqa: SIM905
)
"""Templates of whose end of a turn the tokenizer in `tests.chat_templates` has a token."""
OPENING: list[Message] = [{"role": "system", "content": "Be brief."}, user("Find 7."), user("Now.")]
OBSERVED: list[Message] = [tool_result(Call("find", {}, "c1"), "Nothing."), user("Go on."), user("Really.")]


@each_row("name", ALL)
def test_every_word_of_an_opening_and_of_an_observation_is_rendered(name: str):
    codec = ChatCodec(tokenizer_of(name))
    opening = codec.tokenizer.decode(codec.open(OPENING, []))
    observed = codec.tokenizer.decode(codec.extend(OBSERVED, codec.end_id))
    for text, messages in ((opening, OPENING), (observed, OBSERVED)):
        places = [text.find(text_of(message)) for message in messages]
        assert places == sorted(places)
        assert min(places) >= 0


@each_row("name", ["phi3", "cohere2", "gptoss", "gemma3"])
def test_results_that_a_template_drops_or_refuses_are_sent_as_user_messages(name: str):
    renderer = Renderer(tokenizer_of(name))
    assert not renderer.abilities.results
    [messages] = renderer.adapted(OBSERVED[:1])
    assert messages == {"role": "user", "content": "<tool_response>\nNothing.\n</tool_response>"}


def test_a_system_message_that_is_refused_is_put_before_the_first_user_message():
    renderer = Renderer(tokenizer_of("gemma"))
    assert renderer.adapted(OPENING) == [user("Be brief.\n\nFind 7.\n\nNow.")]
    assert renderer.adapted([{"role": "system", "content": "Alone."}]) == [user("Alone.")]


@each_row("name", ALL)
def test_the_calls_of_an_opening_are_rendered(name: str):
    codec = ChatCodec(tokenizer_of(name))
    call = Call("find", {"words": "seven"}, "call00001")
    opening = [*OPENING[:2], assistant("I look.", [call]), tool_result(call, "Nothing."), user("Go on.")]
    text = codec.tokenizer.decode(codec.open(opening, []))
    assert all(word in text for word in ("find", "words", "seven", "Nothing.", "Go on."))


@each_row(
    "name, end",
    [("gemma3", "<end_of_turn>"), ("phi3", "<|end|>"), ("gptoss", "<|return|>"), ("llama3_1", "<|eot_id|>")],
)
def test_a_turn_ends_with_the_token_that_the_template_writes(name: str, end: str):
    codec = ChatCodec(tokenizer_of(name))
    ended = codec.tokenizer.convert_tokens_to_ids(end)
    ids = [*codec.tokenizer.encode("Hi", add_special_tokens=False), ended]
    assert ended in codec.end_ids
    assert codec.decode(ids) == "Hi"
    assert codec.extend(OBSERVED, ended) == codec.extend(OBSERVED, codec.end_id)
    cut = codec.extend(OBSERVED, last_id=ids[0])
    assert len(cut) > len(codec.extend(OBSERVED, ended))


def test_a_token_within_a_turn_does_not_end_it():
    """gpt-oss writes `<|end|>` after its thoughts, and templates write it after earlier turns."""
    codec = ChatCodec(tokenizer_of("gptoss"))
    assert codec.tokenizer.convert_tokens_to_ids("<|end|>") not in codec.end_ids
    cut = codec.tokenizer.decode(codec.extend([user("Go on.")], last_id=codec.tokenizer.encode("a")[0]))
    assert cut.startswith("<|end|><|start|>user<|message|>Go on.")


def test_a_codec_that_sees_leaves_a_place_and_others_say_what_was_shown():
    messages = [with_pictures(user("Look."), [b"png"])]
    seeing, reading = (ChatCodec(tokenizer_of("qwen3_vl"), sees=sees) for sees in (True, False))
    assert "Look.<|vision_start|><|image_pad|><|vision_end|>" in seeing.tokenizer.decode(seeing.open(messages, []))
    text = reading.tokenizer.decode(reading.open(messages, []))
    assert "Look.\n(A picture was shown here, which you cannot see.)<|im_end|>" in text


def test_a_tokenizer_without_a_template_is_refused_with_advice():
    bare = tokenizer_of("qwen3")
    bare.chat_template = None
    with pytest.raises(UsageError, match=r"'qwen3' has no chat template.*use the instruction model"):
        Renderer(bare)


def test_a_template_that_leaves_out_what_the_model_said_is_refused():
    deaf: Any = tokenizer_of("qwen3")
    deaf.chat_template = "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}"
    with pytest.raises(UsageError, match="leaves out the model's text"):
        Renderer(deaf)
