"""Calls that the chat templates of many families write are read back, on the templates themselves."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.dialects.base import Parsed
from agentgym.dialects.families import FAMILIES, xml_in_tags
from agentgym.dialects.template import TemplateDialect
from agentgym.errors import ToolError, UsageError
from agentgym.messages import ToolCall, user
from agentgym.toolset import Toolset, tool
from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.template_dialect import of_tokenizer
from tests.chat_templates import tokenizer_of

pytestmark = pytest.mark.train

JSON_IN_TAGS = ("qwen2_5", "qwen3", "qwen3_instruct_2507", "qwen3_vl")
XML_IN_TAGS = ("qwen3_5_think", "qwen3_5_nothink", "qwen3_6", "qwen3_8", "nemotron_3_nano", "nemotron_3_ultra")
LLAMA = ("llama3_1", "llama3_2")
DEEPSEEK = ("deepseekv3",)
SEVERAL = (*JSON_IN_TAGS, *XML_IN_TAGS, *DEEPSEEK)
"""Templates that write text before calls, and several calls in a turn."""


class Kind(StrEnum):
    A = "1"
    B = "b"


EXAMPLES = settings(max_examples=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(-1e6, 1e6) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
WORDS = [
    "<tool_call>",
    "</tool_call>",
    "<function=",
    "</parameter>",
    "<think>",
    "</think>",
    '{"name": "a"',
    "{",
    '"',
    "\n",
]
WORDS += [
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<|python_tag|>",
    ', "parameters": ',
    "x",
    "é",
]
WILD = st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=8).map("".join)


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
CALLS = {
    "nested": ToolCall("find", {"words": "a", "more": {"b": [1, 2.5, None, True, {"c": "d"}]}}),
    "unicode and quotes": ToolCall("find", {"words": "Ünï “x” 'y' \"z\" \\ \n\t日本"}),
    "numbers": ToolCall("find", {"words": "12", "limit": -3, "exact": True}),
    "markup": ToolCall("find", {"words": "a < b && <b>c</b> {x} }{ ; ```"}),
    "no arguments": ToolCall("stop"),
}


@pytest.fixture(scope="module")
def dialects() -> dict[str, TemplateDialect]:
    return {name: TemplateDialect(tokenizer_of(name)) for name in (*SEVERAL, *LLAMA)}


def bare(dialect: TemplateDialect, call: ToolCall) -> str:
    """A call without the empty reasoning that some templates write before it."""
    written = dialect.render("", [call], TOOLS)
    return (written.partition("</think>")[2] or written).strip()


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("name", [*SEVERAL, *LLAMA])
def test_what_a_template_writes_is_read_back(dialects: Any, name: str, kind: str):
    call = CALLS[kind]
    assert dialects[name].parse(dialects[name].render("", [call], TOOLS), TOOLS) == Parsed("", (call,))


@pytest.mark.parametrize("text", ["", "I look.", "<think>\nHm.\n</think>\n\nI look.", "<think>\nHm.\n</think>"])
@pytest.mark.parametrize("name", [name for name in SEVERAL if name != "qwen3_5_nothink"])
def test_text_and_several_calls_are_read_back(dialects: Any, name: str, text: str):
    dialect = dialects[name]
    calls = tuple(CALLS.values())
    assert dialect.parse(dialect.render(text, calls, TOOLS), TOOLS) == Parsed(text, calls)


@EXAMPLES
@given(
    words=st.text(max_size=20), more=st.dictionaries(st.text(max_size=6), JSON, max_size=3), limit=st.integers(0, 99)
)
@pytest.mark.parametrize("name", ["qwen3", "llama3_1", "deepseekv3", "qwen3_5_think"])
def test_render_is_exact_or_refuses(dialects: Any, name: str, words: str, more: Any, limit: int):
    call = ToolCall("find", {"words": words, "limit": limit, "more": more})
    try:
        written = dialects[name].render("", [call], TOOLS)
    except ValueError:
        return
    assert dialects[name].parse(written, TOOLS) == Parsed("", (call,))


@EXAMPLES
@given(text=WILD)
@pytest.mark.parametrize("name", ["qwen3", "llama3_1", "deepseekv3", "qwen3_5_think"])
def test_no_text_breaks_a_reader(dialects: Any, name: str, text: str):
    dialect = dialects[name]
    [one] = [dialect.render("", [ToolCall("find", {"words": "a"})], TOOLS)]
    for whole in (text, one + text, text + one, one[: len(one) // 2] + text):
        parsed = dialect.parse(whole, TOOLS)
        assert parsed.error is None or not parsed.calls


@EXAMPLES
@given(text=st.lists(st.sampled_from([*WORDS, " ", "<think>\n", "\n</think>\n\n", "<|im_end|>", "stop"])).map("".join))
@example(text="<think>\nA.\n</think>\n\nB. {")
@example(text="<think>A.</think>B.")
@example(text=" A.")
@pytest.mark.parametrize("name", ["qwen3", "llama3_1", "deepseekv3", "qwen3_5_think"])
def test_what_is_settled_stays_text_whatever_follows(dialects: Any, name: str, text: str):
    dialect = dialects[name]
    call = bare(dialect, ToolCall("find", {"words": "a"}))
    for whole in (text, text + call):
        parsed = dialect.parse(whole, TOOLS)
        said = whole if parsed.error is not None else parsed.text
        for end in range(len(whole) + 1):
            before = whole[:end]
            assert said.startswith(before[: dialect.settled(before, TOOLS)])


def test_a_thought_that_may_be_empty_is_not_settled_before_it_is_told(dialects: Any):
    whole = "<think>\n\n</think>\n\nHello"
    assert dialects["qwen3"].parse(whole, TOOLS).text == "Hello"
    assert {dialects["qwen3"].settled(whole[:end], TOOLS) for end in range(len("<think>\n\n"))} == {0}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *((name, "<think>\nWhich?\n</think>\n\nThis one.") for name in ("qwen3", "llama3_1", "deepseekv3")),
        *((name, "If a < b, then so.") for name in ("qwen3", "llama3_1")),
    ],
)
def test_text_is_settled_at_once_and_a_call_is_not(dialects: Any, name: str, text: str):
    dialect = dialects[name]
    call = bare(dialect, ToolCall("find", {"words": "a"}))
    settled = [dialect.settled(f"{text}\n{call}"[:end], TOOLS) for end in range(len(text) + len(call) + 2)]
    assert settled[len(text) :] == [len(text)] * (len(call) + 2)
    assert settled[len(text) // 2] > 0


@pytest.mark.parametrize("name", [*SEVERAL, *LLAMA])
def test_a_call_in_reasoning_is_no_call(dialects: Any, name: str):
    dialect = dialects[name]
    call = bare(dialect, ToolCall("stop"))
    thought = f"<think>\nI could write {call}\n</think>"
    assert dialect.parse(thought, TOOLS).calls == ()
    assert dialect.parse(f"{thought}\n\n{call}", TOOLS) == Parsed(thought, (ToolCall("stop"),))
    unclosed = dialect.parse(f"<think>\nI could write {call}", TOOLS)
    assert (unclosed.calls, unclosed.unclosed) == ((), True)


@pytest.mark.parametrize("name", ["deepseekv3", "nemotron_3_nano", "qwen3_5_think"])
def test_reasoning_that_the_prompt_opens_may_be_written_without_its_tag(dialects: Any, name: str):
    call = bare(dialects[name], ToolCall("stop"))
    parsed = dialects[name].parse(f"Maybe {call}\n</think>\n\n{call}", TOOLS)
    assert parsed == Parsed(f"<think>\nMaybe {call}\n</think>", (ToolCall("stop"),))


@pytest.mark.parametrize("name", [*SEVERAL, *LLAMA])
def test_calls_that_are_cut_off_are_recognised(dialects: Any, name: str):
    whole = dialects[name].render("", [ToolCall("find", {"words": "some words"})], TOOLS)
    cut = dialects[name].parse(whole[: whole.index("some")], TOOLS)
    assert (cut.calls, cut.unclosed) == ((), True)


@pytest.mark.parametrize("name", [*SEVERAL, *LLAMA])
def test_text_after_a_call_is_a_mistake(dialects: Any, name: str):
    whole = dialects[name].render("", [ToolCall("stop")], TOOLS)
    assert "after" in (dialects[name].parse(f"{whole}\nThere.", TOOLS).error or "")


def test_llama_writes_calls_in_several_ways():
    dialect = TemplateDialect(tokenizer_of("llama3_1"))
    call = '{"name": "stop", "parameters": {}}'
    typed = call.replace("{", '{"type": "function", ', 1)
    for text in (call, typed, f"<|python_tag|>{call}", f"{call}<|eot_id|>", call.replace("parameters", "arguments")):
        assert dialect.parse(text, TOOLS) == Parsed("", (ToolCall("stop"),))
    assert len(dialect.parse(f"{call}; {call}", TOOLS).calls) == 2
    assert dialect.parse(f"Let me stop. {call}", TOOLS).text == "Let me stop."
    assert dialect.parse('A row is {"name": "Bob", "age": 3}.', TOOLS).calls == ()


def test_deepseek_v3_1_writes_a_name_and_its_arguments_in_a_line():
    text = '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>find<｜tool▁sep｜>{"words": "a"}<｜tool▁call▁end｜>'
    text += "<｜tool▁call▁begin｜>stop<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    calls = (ToolCall("find", {"words": "a"}), ToolCall("stop"))
    assert TemplateDialect(tokenizer_of("deepseekv3")).parse(text, TOOLS).calls == calls


class _Optional:
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


@pytest.mark.parametrize(
    ("name", "written", "read"),
    [
        ("text", "007", "007"),
        ("text", '{"a": 1}', '{"a": 1}'),
        ("text", "1.50", "1.50"),
        ("text", "true", "true"),
        ("text", "null", None),
        ("text", "None", None),
        ("either", "7", 7),
        ("either", "7.5", "7.5"),
        ("either", "[7]", "[7]"),
        ("kind", "1", "1"),
        ("number", "2", 2),
        ("number", "null", None),
    ],
)
def test_what_may_be_a_text_is_one_unless_it_has_another_type_of_the_parameter(name: str, written: str, read: Any):
    text = f"<tool_call>\n<function=put>\n<parameter={name}>\n{written}\n</parameter>\n</function>\n</tool_call>"
    tools = Toolset.of(_Optional)
    [call] = xml_in_tags(text, tools).calls
    assert call.arguments == {name: read}
    tools.get("put").check(call.arguments)


def test_values_that_are_written_without_quotes_have_the_types_of_the_schema(dialects: Any):
    def read(**values: str) -> Any:
        parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
        [call] = (
            dialects["qwen3_5_think"]
            .parse(f"<tool_call>\n<function=find>\n{parameters}</function>\n</tool_call>", TOOLS)
            .calls
        )
        return call.arguments

    assert read(words="75001", limit="3", exact="True") == {"words": "75001", "limit": 3, "exact": True}
    assert read(words="true", limit="many") == {"words": "true", "limit": "many"}  # the toolset explains the mistake


def test_tools_that_a_template_does_not_show_are_shown_by_the_dialect(dialects: Any):
    assert dialects["qwen3"].instructions(TOOLS, 2) == ""
    told = dialects["deepseekv3"].instructions(TOOLS)
    assert '"name": "find"' in told
    assert "<｜tool▁call▁begin｜>function<｜tool▁sep｜>FUNCTION" in told


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
def test_a_template_that_only_explains_calls_is_written_as_it_explains(think: bool):
    tokenizer = tokenizer_of("qwen3")
    tokenizer.chat_template = LIKE_SMOLLM3
    dialect = TemplateDialect(tokenizer, think=think)
    assert dialect.instructions(TOOLS, 2) == ""
    for text in ("", "I look."):
        written = dialect.render(text, tuple(CALLS.values()), TOOLS)
        assert dialect.parse(written, TOOLS) == Parsed(text, tuple(CALLS.values()))
        assert "<think>" not in written
    codec = ChatCodec(tokenizer, with_tools=True)
    assert "probe" not in codec.tokenizer.decode(codec.open([user("?")], []))
    assert "'name': 'find'" in codec.tokenizer.decode(codec.open([user("?")], TOOLS.schemas))


def test_tools_are_passed_only_to_templates_that_show_them(dialects: Any):
    for name, shown in (("qwen3", True), ("deepseekv3", False)):
        codec = ChatCodec(tokenizer_of(name), with_tools=True)
        assert ('"name": "find"' in codec.tokenizer.decode(codec.open([user("?")], TOOLS.schemas))) == shown


@pytest.mark.parametrize("name", ["phi3", "gemma3", "cohere2", "llama3"])
def test_a_template_that_writes_no_calls_is_refused(name: str):
    with pytest.raises(UsageError, match="writes no tool calls"):
        of_tokenizer(tokenizer_of(name))


def test_a_template_that_neither_shows_tools_nor_writes_calls_is_refused_though_trl_reads_it():
    """The template of DeepSeek-R1 writes calls beside `content: None`, which transformers leaves out."""
    with pytest.raises(UsageError, match="shows no tools and writes no calls"):
        of_tokenizer(tokenizer_of("deepseek_r1_distill"))


@pytest.mark.parametrize(
    "text", ["<tool_call>", "<tool_call>loo", "<tool_call>look", "<tool_call>look\n", "Hm.<tool_call>l"]
)
def test_a_name_that_is_cut_off_is_no_name(text: str):
    read = of_tokenizer(tokenizer_of("glm4moe")).parse(text, TOOLS)
    assert (read.calls, read.unclosed) == ((), True)
    assert "never closed" in str(read.error)


@pytest.mark.parametrize("name", ["lfm2_2_5", "gemma4_v4", "gptoss", "glm4moe"])
def test_forms_that_trl_knows_are_read_as_it_says(name: str):
    dialect = of_tokenizer(tokenizer_of(name))
    call = ToolCall("find", {"words": "a b", "limit": 3})
    assert dialect.parse(dialect.render("", [call], TOOLS), TOOLS).calls == (call,)


def test_the_readers_do_not_read_each_other_s_calls(dialects: Any):
    for name, reader in (("qwen3", 0), ("qwen3_5_think", 1), ("deepseekv3", 2), ("llama3_1", 3)):
        written = dialects[name].render("", [ToolCall("find", {"words": "a"})], TOOLS)
        readable = []
        for number, read in enumerate(FAMILIES):
            try:
                readable += [number] if read(written, TOOLS).calls else []
            except ToolError:
                continue
        assert readable == [reader]
