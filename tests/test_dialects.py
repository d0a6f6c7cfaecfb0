"""Every dialect: reading is total, writing is exact."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.dialects import DIALECTS, Parsed, dialect_names, get_dialect
from agentgym.dialects.base import MAX_ACTION_CHARS
from agentgym.errors import UsageError
from agentgym.messages import ToolCall, text_of
from agentgym.toolset import Toolset, tool

NAMES = dialect_names()
EXAMPLES = settings(max_examples=150)


@dataclass
class Place:
    x: int
    tags: list[str]


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
    def put(self, place: Place, notes: dict[str, Any], sql: list[str]) -> str:
        """Put something somewhere.

        Args:
            place: Where.
            notes: Anything.
            sql: Some lines.
        """
        return ""


TOOLS = Toolset.of(Tools)

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
    st.just(ToolCall("tables")),
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


@pytest.mark.parametrize("name", NAMES)
@EXAMPLES
@given(text=WILD)
def test_parse_never_raises_and_never_gives_calls_with_an_error(name, text):
    parsed = get_dialect(name).parse(text, TOOLS)
    assert parsed.error is None or not parsed.calls
    assert (parsed.error or "none").encode()
    json.dumps([dict(call.arguments) for call in parsed.calls], allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize("name", NAMES)
@EXAMPLES
@given(text=THOUGHTS, calls=st.lists(CALL, min_size=1, max_size=3))
def test_what_is_rendered_is_parsed_back(name, text, calls):
    dialect = get_dialect(name)
    if name == "fenced" and "</think>" in repr(calls) and "</think>" not in text:
        calls = [ToolCall("tables")]
    if name == "compact" and "@" in text:
        text = "no thought"
    written = dialect.render(text, calls, TOOLS)
    assert same(dialect.parse(written, TOOLS), text, calls)
    assert same(dialect.parse(written + "\n", TOOLS), text, calls) or name == "compact"


@pytest.mark.parametrize("name", NAMES)
@EXAMPLES
@given(text=WILD, calls=st.lists(CALL, max_size=2))
def test_render_is_exact_or_refuses(name, text, calls):
    dialect = get_dialect(name)
    try:
        written = dialect.render(text, calls, TOOLS)
    except ValueError:
        return
    assert same(dialect.parse(written, TOOLS), text, calls)


@pytest.mark.parametrize("name", NAMES)
@EXAMPLES
@given(data=st.data())
def test_damaged_calls_never_raise(name, data):
    dialect = get_dialect(name)
    calls = data.draw(st.lists(CALL, min_size=1, max_size=2))
    try:
        written = dialect.render("", calls, TOOLS)
    except ValueError:
        return
    at, to = sorted(data.draw(st.tuples(*[st.integers(0, len(written))] * 2)))
    for damaged in (written[:at], written[at:], written * 2, written[:to] + written[at:], written[at:to] + written):
        parsed = dialect.parse(damaged, TOOLS)
        assert parsed.error is None or not parsed.calls


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "unit",
    ["<tool_call>", "`", "```sql\n", "<sql>", "<sql></sql>", "<", "@sql x\n", "@", "\n\\@tables", "{", '{"a":', "[",
     "<think></think>", "<think>", "<tool_call>{}</tool_call>", "&", " ", "\\", "````\n```\n", "@put [",
     "\n", "<tool_call>["],
)  # fmt: skip
def test_garbage_is_read_in_linear_time(name, unit):
    dialect = get_dialect(name)
    start = time.monotonic()
    for size in (MAX_ACTION_CHARS - 2, 5_000_000):
        dialect.parse(unit * (size // len(unit)), TOOLS)
        dialect.parse("<tool_call>" + unit * (size // len(unit) - 20), TOOLS)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("name", NAMES)
def test_a_text_without_a_call_is_text(name):
    assert get_dialect(name).parse("I think it is 5 < 7.\n", TOOLS) == Parsed("I think it is 5 < 7.\n")


@pytest.mark.parametrize("name", NAMES)
def test_two_calls_are_both_returned(name):
    calls = [ToolCall("tables"), ToolCall("sql", {"query": "a\n\nb"}), ToolCall("find", {"words": "w"})]
    dialect = get_dialect(name)
    assert same(dialect.parse(dialect.render("First.", calls, TOOLS), TOOLS), "First.", calls)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud83d", "\x00", object(), {1, 2}])
def test_render_refuses_values_that_json_cannot_carry(name, value):
    with pytest.raises(ValueError, match=r"\w"):
        get_dialect(name).render("", [ToolCall("find", {"words": value})], TOOLS)


@pytest.mark.parametrize("name", ["tags", "fenced", "compact"])
@pytest.mark.parametrize("arguments", [{}, {"query": 5}, {"query": "a", "more": "b"}])
def test_a_string_tool_is_rendered_with_its_string_only(name, arguments):
    with pytest.raises(ValueError, match="takes the string 'query' only"):
        get_dialect(name).render("", [ToolCall("sql", arguments)], TOOLS)


WORDS = {"tags": "tags", "fenced": "blocks", "compact": "calls"}


def test_hermes_offers_several_calls_only_where_they_are_allowed():
    dialect = get_dialect("hermes")
    assert "one function at a time" in dialect.instructions(TOOLS, 1)
    assert "one or more" not in dialect.instructions(TOOLS, 1)
    assert "You may call one or more functions to assist with the user query." in dialect.instructions(TOOLS, 2)


@pytest.mark.parametrize("name", ["tags", "fenced", "compact"])
def test_own_dialects_say_how_many_calls_a_message_may_have(name):
    one, several = (get_dialect(name).instructions(TOOLS, number) for number in (1, 3))
    assert several.removeprefix(one) == f"\nUp to 3 {WORDS[name]} may follow one another in a message."


def test_native_calling_explains_nothing_as_the_endpoint_is_given_the_schemas():
    assert get_dialect("native").instructions(TOOLS) == ""


@pytest.mark.parametrize("name", [name for name in NAMES if name != "native"])
def test_instructions_name_every_tool(name):
    instructions = get_dialect(name).instructions(TOOLS)
    assert all(tool in instructions for tool in TOOLS.names)


@pytest.mark.parametrize("name", NAMES)
def test_tool_messages_name_their_call(name):
    message = get_dialect(name).result(ToolCall("sql", {}, "call_1"), "3 rows")
    assert "3 rows" in text_of(message)
    assert message.get("role") == "user" or (message.get("tool_call_id"), message.get("name")) == ("call_1", "sql")


def test_hermes_writes_what_qwen_writes():
    written = get_dialect("hermes").render("Look.", [ToolCall("sql", {"query": "é"})], TOOLS)
    assert written == 'Look.\n<tool_call>\n{"name": "sql", "arguments": {"query": "é"}}\n</tool_call>'


@pytest.mark.parametrize("argument", ["</tool_call>", "<tool_call>", "</think>", "<think>", "</sql>", "<sql/>", "&lt;"])
@pytest.mark.parametrize("name", ["hermes", "tags", "compact"])
def test_arguments_may_hold_the_tags(name, argument):
    dialect = get_dialect(name)
    calls = [ToolCall("sql", {"query": f" {argument} "}), ToolCall("find", {"words": argument})]
    written = dialect.render("", calls, TOOLS)
    assert same(dialect.parse(written, TOOLS), "", calls)
    assert name != "hermes" or written.count("</tool_call>") == 2


def test_hermes_takes_a_list_of_calls_as_smollm2_writes_it():
    text = '<tool_call>[{"name": "tables", "arguments": {}}, {"name": "sql", "arguments": {"query": "x"}}]</tool_call>'
    assert get_dialect("hermes").parse(text, TOOLS).calls == (ToolCall("tables"), ToolCall("sql", {"query": "x"}))


def test_hermes_takes_arguments_as_json_text():
    text = '<tool_call>{"name": "sql", "arguments": "{\\"query\\": \\"x\\"}"}</tool_call>'
    assert get_dialect("hermes").parse(text, TOOLS).calls == (ToolCall("sql", {"query": "x"}),)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("hermes", '<tool_call>{"name": "tables", "arguments": {}}</tool_call>'),
        ("tags", "<tables/>"),
        ("fenced", "```tables\n```"),
    ],
)
def test_a_call_mentioned_in_reasoning_is_not_a_call(name, call):
    dialect = get_dialect(name)
    for thought in (f"<think>\n{call}\n</think>\n", f"The template opened it. {call}\n</think>\n"):
        assert dialect.parse(thought, TOOLS) == Parsed(thought)
        assert dialect.parse(thought + call, TOOLS) == Parsed(thought[:-1], (ToolCall("tables"),))


def test_tags_read_search_r1_as_it_is_written():
    parsed = get_dialect("tags").parse("<think>Hm.</think>\n<sql> a <b> & c </sql>\n", TOOLS)
    assert parsed == Parsed("<think>Hm.</think>", (ToolCall("sql", {"query": "a <b> & c"}),))
    result = get_dialect("tags").result(ToolCall("sql"), "r </information>")
    assert text_of(result) == "<information>r &lt;/information></information>"


class OneString:
    @tool
    def sql(self, query: str) -> str:
        """Run a query.

        Args:
            query: The query.
        """
        return query

    @tool
    def done(self) -> str:
        """Stop."""
        return ""


@pytest.mark.parametrize("info", ["sql", "sqlite", "", "python title=x"])
def test_a_language_is_the_only_string_tool(info):
    text = f"I try:\n```{info}\nselect 1\n```\n"
    parsed = get_dialect("fenced").parse(text, Toolset.of(OneString))
    assert parsed == Parsed("I try:", (ToolCall("sql", {"query": "select 1"}),))


def test_a_language_is_an_unknown_tool_when_two_tools_take_a_string():
    assert get_dialect("fenced").parse("```python\nprint()\n```", TOOLS).calls == (ToolCall("python"),)


def test_fences_are_longer_than_those_inside():
    written = get_dialect("fenced").render("", [ToolCall("sql", {"query": "```x\n````\n"})], TOOLS)
    assert written == "`````sql\n```x\n````\n\n`````"


def test_compact_is_short():
    dialect = get_dialect("compact")
    assert dialect.render("", [ToolCall("sql", {"query": "a\nb"})], TOOLS) == "@sql a\nb"
    assert dialect.render("", [ToolCall("find", {"words": "a", "limit": 2})], TOOLS) == '@find {"words":"a","limit":2}'
    assert dialect.instructions(TOOLS).count("\n") == 0
    assert '@find {"words":string,"limit"?:integer}' in dialect.instructions(TOOLS)


def test_compact_keeps_decorators_and_escapes_what_looks_like_a_call():
    calls = [ToolCall("sql", {"query": "@a\n@tables\n\\@tables x"})]
    written = get_dialect("compact").render("", calls, TOOLS)
    assert written == "@sql @a\n\\@tables\n\\\\@tables x"


def test_unknown_dialects_are_refused_with_a_hint():
    with pytest.raises(UsageError, match="did you mean 'hermes'"):
        get_dialect("herms")
    with pytest.raises(UsageError, match="template:MODEL"):
        get_dialect("template")
    for name in ("nowhere:Class", "agentgym.dialects.base:Nothing", "collections:OrderedDict", "json:loads"):
        with pytest.raises(UsageError, match="dialect"):
            get_dialect(name)


def test_other_peoples_dialects_are_found_by_path():
    assert get_dialect(DIALECTS["tags"]).name == "tags"
