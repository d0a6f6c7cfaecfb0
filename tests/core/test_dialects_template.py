"""The template dialect: calls that real chat templates write are parsed back."""

from __future__ import annotations

from enum import StrEnum
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.base.errors import ToolError, UsageError
from agentgym.core.dialects.base import Parsed
from agentgym.core.dialects.families import FAMILIES, xml_in_tags
from agentgym.core.dialects.template import TemplateDialect
from agentgym.core.messages import ToolCall, user
from agentgym.core.toolset import Toolset, tool
from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.template_dialect import of_tokenizer
from tests.chat_templates import tokenizer_of
from tests.refusals import differing, not_refused

pytestmark = [pytest.mark.real, pytest.mark.train]

JSON_IN_TAGS = ("qwen2_5", "qwen3", "qwen3_instruct_2507", "qwen3_vl")
XML_IN_TAGS = ("qwen3_5_think", "qwen3_5_nothink", "qwen3_6", "qwen3_8", "nemotron_3_nano", "nemotron_3_ultra")
LLAMA = ("llama3_1", "llama3_2")
DEEPSEEK = ("deepseekv3",)
SEVERAL = (*JSON_IN_TAGS, *XML_IN_TAGS, *DEEPSEEK)
"""Templates that write text before calls, and several calls in a turn."""
ALL = (*SEVERAL, *LLAMA)
READERS = ("qwen3", "qwen3_5_think", "deepseekv3", "llama3_1")
"""A template for each reader in `FAMILIES`, in their order."""

EXAMPLES = settings(max_examples=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(-1e6, 1e6) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
WORDS = [
    "<tool_call>", "</tool_call>", "<function=", "</parameter>", "<think>", "</think>", '{"name": "a"', "{", "}", '"',
    "\n", " ", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<|python_tag|>", "<|im_end|>",
    ', "parameters": ', "x", "é", "\ud800", "\ue000",
]  # fmt: skip
WILD = st.lists(st.sampled_from(WORDS) | st.text(max_size=4), max_size=8).map("".join)


class Tools:
    @tool
    def find(self, words: str, limit: int = 10, more: dict[str, Any] | None = None, exact: bool = False) -> str:
        """Find rows.

        Args:
            words: What to look for.
            limit: How many.
            more: Anything else.
            exact: Whether all words must match.
        """
        return words

    @tool
    def stop(self) -> str:
        """Stop."""
        return ""


TOOLS = Toolset.of(Tools)
FIND, STOP = ToolCall("find", {"words": "a"}), ToolCall("stop")
CALLS = (
    ToolCall("find", {"words": "a", "more": {"b": [1, 2.5, None, True, {"c": "d"}]}}),
    ToolCall("find", {"words": "Ünï “x” 'y' \"z\" \\ \n\t日本"}),
    ToolCall("find", {"words": "12", "limit": -3, "exact": True}),
    ToolCall("find", {"words": "a < b && <b>c</b> {x} }{ ; ```"}),
    STOP,
)


@pytest.fixture(scope="module")
def dialects() -> dict[str, TemplateDialect]:
    """Dialects of templates by name, and `response`: one of a tokenizer with a response template."""
    own = {name: TemplateDialect(tokenizer_of(name)) for name in ALL}
    return {**own, "response": TemplateDialect(with_response_template())}


def with_response_template() -> Any:
    """Return a tokenizer with the chat template of Qwen3 and the response template that TRL has for it."""
    from trl.chat_template_utils import add_response_schema

    return add_response_schema(tokenizer_of("qwen3"))


def bare(dialect: TemplateDialect, call: ToolCall) -> str:
    """A call without the empty reasoning that some templates write before it."""
    written = dialect.render("", [call], TOOLS)
    return (written.partition("</think>")[2] or written).strip()


# Every template.


@pytest.mark.parametrize("name", [*ALL, "response"])
def test_rendered_calls_and_text_parse_back(dialects: Any, name: str):
    dialect, turns = dialects[name], [("", (call,)) for call in CALLS]
    if name not in LLAMA:
        texts = [
            "",
            "I look.",
            *(["<think>\nHm.\n</think>\n\nI look.", "<think>\nHm.\n</think>"] * (name != XML_IN_TAGS[1])),
        ]
        turns += [(text, CALLS) for text in texts]
    rows = [(turn, Parsed(*turn)) for turn in turns]
    assert differing(lambda turn: dialect.parse(dialect.render(*turn, TOOLS), TOOLS), rows) == []


@EXAMPLES
@given(
    text=st.just("") | WILD,
    words=st.text(max_size=20) | WILD,
    more=st.dictionaries(st.text(max_size=6), JSON, max_size=3),
    count=st.integers(0, 2),
)
@pytest.mark.parametrize("name", [*READERS, "response"])
def test_render_is_exact_or_refuses(dialects: Any, name: str, text: str, words: str, more: Any, count: int):
    calls = (ToolCall("find", {"words": words, "limit": 3, "more": more}), STOP)[:count]
    try:
        written = dialects[name].render(text, calls, TOOLS)
    except ValueError:
        return
    assert dialects[name].parse(written, TOOLS) == Parsed(text, calls)


@EXAMPLES
@given(text=WILD)
@example(text="<think>\nA.\n</think>\n\nB. {")
@example(text="<think>A.</think>B.")
@example(text=" A.")
@pytest.mark.parametrize("name", [*READERS, "response"])
def test_any_text_parses_and_its_settled_prefix_stays_text(dialects: Any, name: str, text: str):
    dialect = dialects[name]
    call = bare(dialect, FIND)
    for whole in (text, call + text, text + call, call[: len(call) // 2] + text, call.replace('"a"', f'"{text}"')):
        parsed = dialect.parse(whole, TOOLS)
        assert parsed.error is None or not parsed.calls
        assert (parsed.error or "none").encode()
        plain = whole if parsed.error is not None else parsed.text
        beginnings = (whole[:end] for end in range(len(whole) + 1))
        assert all(plain.startswith(before[: dialect.settled(before, TOOLS)]) for before in beginnings)


def test_a_call_in_reasoning_is_text_and_a_truncated_call_is_a_mistake(dialects: Any):
    for name in ALL:
        dialect = dialects[name]
        call, whole = bare(dialect, STOP), dialect.render("", [ToolCall("find", {"words": "some words"})], TOOLS)
        thought = f"<think>\nI could write {call}\n</think>"
        assert dialect.parse(thought, TOOLS).calls == (), name
        assert dialect.parse(f"{thought}\n\n{call}", TOOLS) == Parsed(thought, (STOP,)), name
        for cut in (f"<think>\nI could write {call}", whole[: whole.index("some")]):
            parsed = dialect.parse(cut, TOOLS)
            assert (parsed.calls, parsed.unclosed) == ((), True), name
        assert "after" in (dialect.parse(f"{dialect.render('', [STOP], TOOLS)}\nThere.", TOOLS).error or ""), name


def test_reasoning_opened_by_the_prompt_may_lack_its_opening_tag(dialects: Any):
    for name in ("deepseekv3", "nemotron_3_nano", "qwen3_5_think"):
        call = bare(dialects[name], STOP)
        parsed = dialects[name].parse(f"Maybe {call}\n</think>\n\n{call}", TOOLS)
        assert parsed == Parsed(f"<think>\nMaybe {call}\n</think>", (STOP,)), name


def test_readers_do_not_accept_calls_of_other_families(dialects: Any):
    for number, name in enumerate(READERS):
        written = dialects[name].render("", [FIND], TOOLS)
        readable = []
        for reader in FAMILIES:
            try:
                readable += [reader] if reader(written, TOOLS).calls else []
            except ToolError:
                continue
        assert readable == [FAMILIES[number]]


# Families.


def test_llama_calls_parse_in_all_their_forms(dialects: Any):
    dialect = dialects["llama3_1"]
    call = '{"name": "stop", "parameters": {}}'
    typed = call.replace("{", '{"type": "function", ', 1)
    for text in (call, typed, f"<|python_tag|>{call}", f"{call}<|eot_id|>", call.replace("parameters", "arguments")):
        assert dialect.parse(text, TOOLS) == Parsed("", (STOP,))
    assert len(dialect.parse(f"{call}; {call}", TOOLS).calls) == 2
    assert dialect.parse(f"Let me stop. {call}", TOOLS).text == "Let me stop."
    assert dialect.parse('A row is {"name": "Bob", "age": 3}.', TOOLS).calls == ()


def test_deepseek_v3_1_calls_parse(dialects: Any):
    text = '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>find<｜tool▁sep｜>{"words": "a"}<｜tool▁call▁end｜>'
    text += "<｜tool▁call▁begin｜>stop<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    assert dialects["deepseekv3"].parse(text, TOOLS).calls == (FIND, STOP)


class Kind(StrEnum):
    A = "1"
    B = "b"


class Optional:
    """Tools whose parameters take several types."""

    @tool
    def put(
        self, text: str | None = None, either: str | int = 0, kind: Kind = Kind.A, number: float | None = None
    ) -> str:
        """Put.

        Args:
            text: A text.
            either: A text or a number.
            kind: A kind.
            number: A number.
        """
        return ""


WRITTEN: list[tuple[tuple[str, str], Any]] = [
    (("text", "007"), "007"),
    (("text", '{"a": 1}'), '{"a": 1}'),
    (("text", "true"), "true"),
    (("text", "null"), None),
    (("either", "7"), "7"),
    (("either", "7.5"), "7.5"),
    (("kind", "1"), "1"),
    (("number", "2"), 2),
    (("number", "null"), None),
]


def test_values_without_quotes_have_the_types_of_the_schema(dialects: Any):
    tools = Toolset.of(Optional)

    def read(row: tuple[str, str]) -> Any:
        name, value = row
        text = f"<tool_call>\n<function=put>\n<parameter={name}>\n{value}\n</parameter>\n</function>\n</tool_call>"
        [call] = xml_in_tags(text, tools).calls
        tools.get("put").check(call.arguments)
        return call.arguments[name]

    assert differing(read, WRITTEN) == []
    values = {"words": "75001", "limit": "3", "exact": "True"}
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    text = f"<tool_call>\n<function=find>\n{parameters}</function>\n</tool_call>"
    [call] = dialects["qwen3_5_think"].parse(text, TOOLS).calls
    assert call.arguments == {"words": "75001", "limit": 3, "exact": True}
    [call] = dialects["qwen3_5_think"].parse(text.replace("\n3\n", "\nmany\n"), TOOLS).calls
    assert call.arguments["limit"] == "many", "the toolset explains the mistake"


# Prompts.


def test_the_dialect_lists_tools_if_the_template_does_not(dialects: Any):
    assert dialects["response"].instructions(TOOLS, 1) == "Call one function at a time."  # templates offer several
    assert dialects["response"].result(ToolCall("find", {}, "c1"), "3")["role"] == "tool"
    assert dialects["qwen3"].instructions(TOOLS, 2) == ""
    instructions = dialects["deepseekv3"].instructions(TOOLS)
    assert '"name": "find"' in instructions
    assert "<｜tool▁call▁begin｜>function<｜tool▁sep｜>FUNCTION" in instructions
    for name, is_shown in (("qwen3", True), ("deepseekv3", False)):
        codec = ChatCodec(tokenizer_of(name), with_tools=True)
        assert ('"name": "find"' in codec.tokenizer.decode(codec.open([user("?")], TOOLS.schemas))) == is_shown


LIKE_SMOLLM3 = (
    "{{ '<|im_start|>system\n' }}{% if xml_tools %}{% for tool in xml_tools %}{{ tool | string }}{% endfor %}"
    '{{ \'Write <tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>\' }}{% endif %}'
    "{{ '<|im_end|>\n' }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if m.role == 'assistant' and not think %}{{ '<think>\n\n</think>\n' }}{% endif %}"
    "{{ m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% if not think %}{{ '<think>\n\n</think>\n' }}{% endif %}{% endif %}"
)
"""Takes tools as `xml_tools`, explains how to call them, and writes no calls itself."""


@pytest.mark.parametrize("think", [False, True])
def test_a_template_that_only_explains_calls_uses_the_explained_form(think: bool):
    tokenizer = tokenizer_of("qwen3")
    tokenizer.chat_template = LIKE_SMOLLM3
    dialect = TemplateDialect(tokenizer, think=think)
    assert dialect.instructions(TOOLS, 2) == ""
    for text in ("", "I look."):
        written = dialect.render(text, CALLS, TOOLS)
        assert dialect.parse(written, TOOLS) == Parsed(text, CALLS)
        assert "<think>" not in written
    codec = ChatCodec(tokenizer, with_tools=True)
    assert "probe" not in codec.tokenizer.decode(codec.open([user("?")], []))
    assert "'name': 'find'" in codec.tokenizer.decode(codec.open([user("?")], TOOLS.schemas))


def test_a_template_that_writes_no_calls_is_refused():
    """The template of DeepSeek-R1 writes calls only with `content: None`, which transformers drops."""
    rows = [(name, "writes no tool calls") for name in ("phi3", "gemma3", "cohere2", "llama3")]
    rows.append(("deepseek_r1_distill", "shows no tools and writes no calls"))
    assert not_refused(lambda name: of_tokenizer(tokenizer_of(name)), rows) == []
    with pytest.raises(UsageError, match="chat template"):
        TemplateDialect(SimpleNamespace(chat_template=None))


# Response templates.


def test_response_templates_of_trl_parse_their_calls():
    call = ToolCall("find", {"words": "a b", "limit": 3})
    for name in ("lfm2_2_5", "gemma4_v4", "gptoss", "glm4moe"):
        dialect = of_tokenizer(tokenizer_of(name))
        assert dialect.parse(dialect.render("", [call], TOOLS), TOOLS).calls == (call,), name
    for text in ("<tool_call>", "<tool_call>loo", "<tool_call>look", "<tool_call>look\n", "Hm.<tool_call>l"):
        cut = dialect.parse(text, TOOLS)
        assert (cut.calls, cut.unclosed) == ((), True), "a truncated name is not a call"


CALL = '<tool_call>\n{"name": "find", "arguments": {"words": "a", "limit": "3"}}\n</tool_call>'
MISTAKES = [
    ('<tool_call>{"name": "find" "arguments": {}}</tool_call>', "not valid JSON: Expecting ',' delimiter, at"),
    ('<tool_call>{"name": "find", "arguments": 3}</tool_call>', "must be an object, not a number"),
    ('<tool_call>{"name": "find", "arguments": {"limit": NaN}}</tool_call>', "NaN"),
    ('<tool_call>{"arguments": {}}</tool_call>', "must look like"),
    (f"<tool_call>{CALL}", "not valid JSON"),
    (f"{CALL}\nThere.", "text after the call: 'There.'"),
    ("", "empty"),
    ("a\ud800", "is not text"),
    ("x" * 300_000, "at most 200000"),
]


def test_a_response_template_parses_calls_text_and_reasoning(dialects: Any):
    dialect, call = dialects["response"], ToolCall("find", {"words": "a", "limit": 3})
    for end in ("", "<|im_end|>", "<|im_end|>\n", "\n"):
        assert dialect.parse("I look.\n" + CALL + end, TOOLS) == Parsed("I look.", (call,))
    assert dialect.parse(f"{CALL}\n{CALL}", TOOLS).calls == (call, call)
    assert dialect.parse("Just text.<|im_end|>", TOOLS) == Parsed("Just text.")
    thought = f"<think>\nMaybe {CALL}\n</think>\n\nSo."
    assert dialect.parse(f"{thought}\n{CALL}<|im_end|>", TOOLS) == Parsed(thought, (call,))
    tokenizer = with_response_template()
    opening = "{{- '<|im_start|>assistant\\n' }}"
    tokenizer.chat_template = tokenizer.chat_template.replace(opening, opening.replace("\\n", "\\n<think>\\n"))
    parsed = TemplateDialect(tokenizer).parse(f"Hm.\n</think>\n\n{CALL}", TOOLS)
    assert parsed == Parsed("<think>\nHm.\n</think>", (call,)), "the prompt opens the reasoning"


def test_each_mistake_has_its_own_error_and_truncation_is_recognised(dialects: Any):
    for text, words in MISTAKES:
        parsed = dialects["response"].parse(text, TOOLS)
        assert (parsed.calls, parsed.unclosed) == ((), False)
        assert words in (parsed.error or "")
    for text in (CALL[:-5], CALL[:30], "So.\n<tool_call>", "<think>\nSo", f"{CALL}\n{CALL[:-3]}<|im_end|>"):
        parsed = dialects["response"].parse(text, TOOLS)
        assert parsed.unclosed
        named = "reasoning_content" if text.startswith("<think>") else "tool call"
        assert f"The {named} in your message is never closed" in (parsed.error or "")
