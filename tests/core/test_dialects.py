"""Every dialect: parsing is total, rendering is exact, reasoning is never a call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentgym.core.dialects import DIALECTS, Parsed, dialect_names, get_dialect
from agentgym.core.dialects.base import MAX_ACTION_CHARS
from agentgym.core.dialects.text import TextDialect
from agentgym.core.messages import ToolCall, text_of
from agentgym.core.toolset import Toolset, tool
from agentgym.envs.guess import GuessEnv
from tests.refusals import not_refused
from tests.rollout_cases import Letters, Speaker, jobs, run

NAMES = dialect_names()
OWN = ("tags", "fenced", "compact")
EXAMPLES = settings(max_examples=100)


class Tools:
    @tool
    def tables(self) -> str:
        """List the tables."""
        return ""

    @tool
    def sql(self, query: str) -> str:
        """Run a query.

        Args:
            query: The query.
        """
        return query

    @tool
    def answer_2(self, text: str) -> str:
        """Answer.

        Args:
            text: The answer.
        """
        return text

    @tool
    def find(self, words: str, limit: int = 10) -> str:
        """Find rows.

        Args:
            words: What to look for.
            limit: How many.
        """
        return words

    @tool
    def put(self, place: dict[str, Any]) -> str:
        """Put something somewhere.

        Args:
            place: Where.
        """
        return ""


TOOLS = Toolset.of(Tools)
TABLES = ToolCall("tables")

SHARDS = [
    "<tool_call>", "</tool_call>", "<think>", "</think>", "<sql>", "</sql>", "<sql/>", "<tables>", "</find>", "&lt;",
    "&amp;", "&#32;", "&", "```", "````", "```sql", "\n", "\n\n", " ", "\t", "\r\n", "\u2028", "\x1c", "@sql ",
    "@tables", "\n@sql", "\\", "\n\\@tables", "@", "{", "}", '"', '{"name": "sql", "arguments": {"query": "x"}}', "NaN",
    '{"tool_calls":', '{"tool_calls": []}', '\n{"tool_calls": [{"function": {"name": "sql"}}]}', "Zoë",
    "日本", "🙂", "\ud800", "\x00", "\ufffd", "select 1", "-1e999", "[" * 50, "'", "output",
]  # fmt: skip
WILD = st.lists(st.sampled_from(SHARDS) | st.text(max_size=6), max_size=12).map("".join)
TEXT = WILD.map(lambda text: text.replace("\ud800", "").replace("\x00", ""))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
CALL = st.one_of(
    st.just(TABLES),
    st.builds(lambda text: ToolCall("sql", {"query": text}), TEXT),
    st.builds(lambda text: ToolCall("answer_2", {"text": text}), TEXT),
    st.builds(lambda text, limit: ToolCall("find", {"words": text, "limit": limit}), TEXT, st.integers()),
    st.builds(lambda value, key: ToolCall("put", {"place": value, key: [value]}), JSON, TEXT),
)
THOUGHTS = st.sampled_from(
    ["", "I look.", "<think>\nWhich <sql>? @sql ```\n</think>\n", "\n", " Über \n\n", "a < b & c"]
)


def same(parsed: Parsed, text: str, calls: list[ToolCall]) -> bool:
    read = [(call.name, call.arguments) for call in parsed.calls]
    return parsed.error is None and parsed.text == text and read == [(call.name, call.arguments) for call in calls]


def dialect_of(name: str) -> TextDialect:
    dialect = get_dialect(name)
    assert isinstance(dialect, TextDialect)
    return dialect


@pytest.mark.parametrize("name", NAMES)
@EXAMPLES
@given(text=WILD)
@example(text="<think>\n<tool_call></think>\n```\n@tables")
def test_any_text_parses_and_its_settled_prefix_stays_text(name: str, text: str):
    dialect = dialect_of(name)
    parsed = dialect.parse(text, TOOLS)
    assert parsed.error is None or not parsed.calls
    assert (parsed.error or "none").encode()
    json.dumps([dict(call.arguments) for call in parsed.calls], allow_nan=False, ensure_ascii=False).encode()
    whole = text if parsed.error is not None else parsed.text
    beginnings = (text[:end] for end in range(len(text) + 1))
    assert all(whole.startswith(before[: dialect.settled(before, TOOLS)]) for before in beginnings)


@pytest.mark.parametrize("name", NAMES)
@EXAMPLES
@given(text=THOUGHTS, calls=st.lists(CALL, min_size=1, max_size=3), data=st.data())
def test_a_rendered_turn_parses_back_and_damaged_turns_parse(
    name: str, text: str, calls: list[ToolCall], data: st.DataObject
):
    dialect = get_dialect(name)
    if name == "fenced" and "</think>" in repr(calls) and "</think>" not in text:
        calls = [TABLES]
    if name == "compact" and "@" in text:
        text = "no thought"
    written = dialect.render(text, calls, TOOLS)
    assert same(dialect.parse(written, TOOLS), text, calls)
    assert same(dialect.parse(written + "\n", TOOLS), text, calls) or name == "compact"
    at, to = sorted(data.draw(st.tuples(*[st.integers(0, len(written))] * 2)))
    for damaged in (written[:at], written[at:], written * 2, written[:to] + written[at:], written[at:to] + written):
        parsed = dialect.parse(damaged, TOOLS)
        assert parsed.error is None or not parsed.calls


@pytest.mark.parametrize("name", NAMES)
@EXAMPLES
@given(text=WILD, calls=st.lists(CALL, max_size=2))
def test_render_is_exact_or_refuses(name: str, text: str, calls: list[ToolCall]):
    dialect = get_dialect(name)
    try:
        written = dialect.render(text, calls, TOOLS)
    except ValueError:
        return
    assert same(dialect.parse(written, TOOLS), text, calls)


GARBAGE = [
    "<tool_call>", "`", "```sql\n", "<sql>", "<sql></sql>", "<", "@sql x\n", "@", "\n\\@tables", "{", '{"a":', "[",
    "<think></think>", "<think>", "<tool_call>{}</tool_call>", "&", " ", "\\", "````\n```\n", "@put [",
    "\n", "<tool_call>[",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_long_garbage_parses_in_linear_time(name: str):
    """Quadratic work would exceed the timeout of the test."""
    dialect = get_dialect(name)
    for unit in GARBAGE:
        for size in (MAX_ACTION_CHARS - 2, 5_000_000):
            dialect.parse(unit * (size // len(unit)), TOOLS)
            dialect.parse("<tool_call>" + unit * (size // len(unit) - 20), TOOLS)


def test_text_without_a_call_is_text_and_several_calls_are_parsed():
    calls = [TABLES, ToolCall("sql", {"query": "a\n\nb"}), ToolCall("find", {"words": "w"})]
    for name in NAMES:
        dialect = get_dialect(name)
        assert dialect.parse("I think it is 5 < 7.\n", TOOLS) == Parsed("I think it is 5 < 7.\n"), name
        assert same(dialect.parse(dialect.render("First.", calls, TOOLS), TOOLS), "First.", calls), name


def test_render_refuses_values_beyond_json_and_wrong_arguments():
    values = [float("nan"), float("inf"), "\ud83d", "\x00", object(), {1, 2}]
    for name in NAMES:
        render = get_dialect(name).render
        calls = [(ToolCall("find", {"words": value}), "") for value in values]
        assert not_refused(lambda call, render=render: render("", [call], TOOLS), calls, ValueError) == []
    for name in OWN:
        render = get_dialect(name).render
        calls = [
            (ToolCall("sql", arguments), "'query'") for arguments in ({}, {"query": 5}, {"query": "a", "more": "b"})
        ]
        assert not_refused(lambda call, render=render: render("", [call], TOOLS), calls, ValueError) == []


# Each dialect by itself.


def test_hermes_matches_qwen_and_accepts_lists_and_text_arguments():
    hermes = get_dialect("hermes")
    written = hermes.render("Look.", [ToolCall("sql", {"query": "é"})], TOOLS)
    assert written == 'Look.\n<tool_call>\n{"name": "sql", "arguments": {"query": "é"}}\n</tool_call>'
    query = ToolCall("sql", {"query": "x"})
    text = '<tool_call>[{"name": "tables", "arguments": {}}, {"name": "sql", "arguments": {"query": "x"}}]</tool_call>'
    assert hermes.parse(text, TOOLS).calls == (TABLES, query)
    text = '<tool_call>{"name": "sql", "arguments": "{\\"query\\": \\"x\\"}"}</tool_call>'
    assert hermes.parse(text, TOOLS).calls == (query,)


def test_tags_match_search_r1():
    parsed = get_dialect("tags").parse("<think>Hm.</think>\n<sql> a <b> & c </sql>\n", TOOLS)
    assert parsed == Parsed("<think>Hm.</think>", (ToolCall("sql", {"query": "a <b> & c"}),))
    result = get_dialect("tags").result(ToolCall("sql"), "r </information>")
    assert text_of(result) == "<information>r &lt;/information></information>"


def test_a_fence_language_calls_the_only_string_tool_or_an_unknown_one():
    fenced, one_string = get_dialect("fenced"), TOOLS.only("sql", "tables")
    for info in ("sql", "sqlite", "", "python title=x"):
        parsed = fenced.parse(f"I try:\n```{info}\nselect 1\n```\n", one_string)
        assert parsed == Parsed("I try:", (ToolCall("sql", {"query": "select 1"}),)), info
    assert fenced.parse("```python\nprint()\n```", TOOLS).calls == (ToolCall("python"),)


def test_compact_is_short_and_escapes_text_that_looks_like_a_call():
    dialect = get_dialect("compact")
    assert dialect.render("", [ToolCall("sql", {"query": "a\nb"})], TOOLS) == "@sql a\nb"
    assert dialect.render("", [ToolCall("find", {"words": "a", "limit": 2})], TOOLS) == '@find {"words":"a","limit":2}'
    assert dialect.instructions(TOOLS).count("\n") == 0
    assert '@find {"words":string,"limit"?:integer}' in dialect.instructions(TOOLS)
    calls = [ToolCall("sql", {"query": "@a\n@tables\n\\@tables x"})]
    assert dialect.render("", calls, TOOLS) == "@sql @a\n\\@tables\n\\\\@tables x"


def test_dialects_load_by_name_or_path_and_unknown_names_get_a_hint():
    assert get_dialect(DIALECTS["tags"]).name == "tags"
    rows = [("herms", "did you mean 'hermes'"), ("template", "template:MODEL")]
    rows += [(name, "dialect") for name in ("nowhere:Class", "agentgym.core.dialects.base:Nothing", "json:loads")]
    assert not_refused(get_dialect, [*rows, ("collections:OrderedDict", "dialect")]) == []


# Reasoning, and turns that have not ended.


def test_only_the_call_after_the_reasoning_is_a_call():
    for name in NAMES:
        dialect = get_dialect(name)
        call = dialect.render("", [TABLES], TOOLS)
        for opening in ("<think>\n", ""):  # the chat template may have written it
            thought = f"{opening}I could write\n{call}\nor not.\n</think>\n"
            assert dialect.parse(thought, TOOLS) == Parsed(thought), name
            assert dialect.parse(thought + call, TOOLS) == Parsed(thought[:-1], (TABLES,)), name
        parsed = dialect.parse(f"<think>\nSo:\n{call}", TOOLS)
        assert (parsed.calls, parsed.unclosed) == ((), True), name
        assert "<think> is never closed" in (parsed.error or ""), name


@pytest.mark.parametrize("name", NAMES)
def test_streamed_text_is_settled_up_to_the_first_character_of_a_call(name: str):
    dialect = dialect_of(name)
    text = "If a < b and `c` then {d} or e@f, as said.\nSo:"
    whole = dialect.render(text, [TABLES], TOOLS)
    settled = [dialect.settled(whole[:end], TOOLS) for end in range(len(whole) + 1)]
    assert settled[len(text) :] == [len(text)] * (len(whole) + 1 - len(text))
    late = [end - count for end, count in enumerate(settled[: len(text)])]
    assert max(late) <= 3, "text waits for no more than what could begin a call"
    thought = f"<think>\n{whole} comes to mind"
    assert dialect.settled(thought, TOOLS) == len(thought)


class Opened(Letters):
    """A codec of a template that opens the reasoning of every turn."""

    def open(self, messages: Any, tools: Any) -> list[int]:
        return [*super().open(messages, tools), *(ord(c) + 2 for c in "<think>\n")]

    def extend(self, observation: Any, last_id: int) -> list[int]:
        return [*super().extend(observation, last_id), *(ord(c) + 2 for c in "<think>\n")]


def guess(number: int) -> str:
    return GuessEnv(dialect="hermes").dialect.render("", [ToolCall("guess", {"number": number})], GuessEnv().tools)


def test_reasoning_opened_by_the_prompt_belongs_to_the_turn():
    policy = Speaker([f"Maybe 1.\n</think>\n{guess(2)}", guess(3)])
    policy.codec = Opened()
    [trajectory] = run(jobs(1), policy, max_new_tokens=500)
    first, second, *_ = trajectory.turns
    assert str(first.action).startswith("<think>\nMaybe 1.\n</think>\n<tool_call>")
    assert trajectory.counts["calls"] == len(trajectory.turns) // 2
    assert str(second.action).startswith("<think>\n<tool_call>")
    assert "<think> is never closed" in str(second.observation)
