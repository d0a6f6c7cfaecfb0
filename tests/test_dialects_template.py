"""The template dialect, on a tokenizer with Qwen3's own chat template and response template."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.dialects.base import Parsed
from agentgym.dialects.template import TemplateDialect
from agentgym.errors import UsageError
from agentgym.messages import ToolCall
from agentgym.toolset import Toolset, tool

pytestmark = pytest.mark.train

EXAMPLES = settings(max_examples=80)
WORDS = [
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    "<|im_end|>",
    "{",
    "}",
    '"',
    "\n",
    " ",
    "é",
    "\ud800",
    "\ue000",
]
WILD = st.lists(st.sampled_from(WORDS) | st.text(max_size=4), max_size=8).map("".join)
CALL = '<tool_call>\n{"name": "find", "arguments": {"words": "a", "limit": "3"}}\n</tool_call>'


class Tools:
    @tool
    def find(self, words: str, limit: int = 10) -> str:
        """Find rows.

        Args:
            words: What to look for.
            limit: How many.
        """
        return words

    @tool
    def stop(self) -> str:
        """Stop."""
        return ""


TOOLS = Toolset.of(Tools)


@pytest.fixture(scope="module")
def dialect() -> TemplateDialect:
    return TemplateDialect(qwen_tokenizer())


def qwen_tokenizer():
    """Build a byte-level tokenizer without merges, with the templates of Qwen3."""
    transformers = pytest.importorskip("transformers")
    trl = pytest.importorskip("trl")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from trl.chat_template_utils import add_response_schema

    letters = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    backend = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(letters)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>")
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text()
    return add_response_schema(tokenizer)


def test_calls_are_read_as_the_response_template_says(dialect):
    call = ToolCall("find", {"words": "a", "limit": 3})
    for end in ("", "<|im_end|>", "<|im_end|>\n", "\n"):
        assert dialect.parse("I look.\n" + CALL + end, TOOLS) == Parsed("I look.", (call,))
    assert dialect.parse(f"{CALL}\n{CALL}", TOOLS).calls == (call, call)


def test_reasoning_is_text_and_calls_in_it_are_not_calls(dialect):
    parsed = dialect.parse(f"<think>\nMaybe {CALL}\n</think>\n\nSo.\n{CALL}<|im_end|>", TOOLS)
    assert parsed.text == f"<think>\nMaybe {CALL}\n</think>\n\nSo."
    assert len(parsed.calls) == 1


def test_text_without_a_call_is_text(dialect):
    assert dialect.parse("Just text.<|im_end|>", TOOLS) == Parsed("Just text.")


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ('<tool_call>{"name": "find" "arguments": {}}</tool_call>', "not valid JSON: Expecting ',' delimiter, at"),
        ('<tool_call>{"name": "find", "arguments": 3}</tool_call>', "must be an object, not a number"),
        ('<tool_call>{"name": "find", "arguments": {"limit": NaN}}</tool_call>', "NaN"),
        ('<tool_call>{"arguments": {}}</tool_call>', "must look like"),
        ('<tool_call>["find"]</tool_call>', "must look like"),
        ("<tool_call></tool_call>", "not valid JSON"),
        (f"<tool_call>{CALL}", "not valid JSON"),
        (f"{CALL}\nThere.", "text after the call: 'There.'"),
        ("", "empty"),
        ("a\ud800", "is not text"),
        ("<tool_call>" + "[" * 90_000 + "</tool_call>", "tool call"),
        ("x" * 300_000, "at most 200000"),
    ],
)
def test_each_mistake_has_its_own_error(dialect, text, pattern):
    parsed = dialect.parse(text, TOOLS)
    assert parsed.calls == ()
    assert pattern in (parsed.error or "")
    assert not parsed.unclosed


@pytest.mark.parametrize(
    "text", [CALL[:-5], CALL[:30], "So.\n<tool_call>", "<think>\nSo", f"{CALL}\n{CALL[:-3]}<|im_end|>"]
)
def test_cut_off_messages_are_recognised(dialect, text):
    parsed = dialect.parse(text, TOOLS)
    assert parsed.unclosed
    named = "reasoning_content" if text.startswith("<think>") else "tool call"
    assert f"The {named} in your message is never closed" in (parsed.error or "")


@EXAMPLES
@given(text=WILD)
def test_parse_never_raises(dialect, text):
    for whole in (text, "<tool_call>" + text, CALL + text, CALL.replace('"a"', f'"{text}"')):
        parsed = dialect.parse(whole, TOOLS)
        assert parsed.error is None or not parsed.calls
        assert (parsed.error or "none").encode()


@EXAMPLES
@given(text=WILD, words=WILD, limit=st.integers(0, 99), count=st.integers(0, 2))
def test_render_is_exact_or_refuses(dialect, text, words, limit, count):
    calls = (ToolCall("find", {"words": words, "limit": limit}), ToolCall("stop"))[:count]
    try:
        written = dialect.render(text, calls, TOOLS)
    except ValueError:
        return
    assert dialect.parse(written, TOOLS) == Parsed(text, calls)


@EXAMPLES
@given(words=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00<"), max_size=20))
def test_ordinary_calls_are_rendered_and_read_back(dialect, words):
    calls = (ToolCall("find", {"words": words, "limit": 3}), ToolCall("stop"))
    for text in ("", "I look.", "<think>\nHm.\n</think>\n\nI look."):
        assert dialect.parse(dialect.render(text, calls, TOOLS), TOOLS) == Parsed(text, calls)


def test_a_prompt_that_opens_the_reasoning_is_taken_into_account():
    tokenizer = qwen_tokenizer()
    tokenizer.chat_template = tokenizer.chat_template.replace(
        "{{- '<|im_start|>assistant\\n' }}", "{{- '<|im_start|>assistant\\n<think>\\n' }}"
    )
    parsed = TemplateDialect(tokenizer).parse(f"Hm.\n</think>\n\n{CALL}", TOOLS)
    assert parsed == Parsed("<think>\nHm.\n</think>", (ToolCall("find", {"words": "a", "limit": 3}),))


def test_a_tokenizer_without_a_chat_template_is_refused():
    with pytest.raises(UsageError, match="needs a tokenizer with a chat template"):
        TemplateDialect(SimpleNamespace(chat_template=None))


def test_the_tools_are_left_to_the_chat_template(dialect):
    assert dialect.instructions(TOOLS, 1) == "Call one function at a time."  # templates offer several
    assert dialect.instructions(TOOLS, 2) == ""
    assert dialect.result(ToolCall("find", {}, "c1"), "3")["role"] == "tool"
