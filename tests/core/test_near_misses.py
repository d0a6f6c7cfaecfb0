"""Calls in the forms of model families are read by their own dialect, and recognised under every other one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentgym.core.dialects import DIALECTS, get_dialect
from agentgym.core.dialects.base import MAX_ACTION_CHARS, Dialect, Parsed
from agentgym.core.dialects.families import FAMILIES, Reader
from agentgym.core.dialects.near_misses import FORMS, near_miss
from agentgym.core.dialects.text import TextDialect
from agentgym.core.engine.spaces import finished
from agentgym.core.messages import ToolCall, assistant, text_of
from agentgym.core.toolset import Toolset, tool
from tests.counter_env import Counter, started
from tests.refusals import differing


class Tools:
    @tool
    def lookup(self, sql: str) -> str:
        """Run a query.

        Args:
            sql: The query.
        """
        return sql

    @tool
    def book(self, city: str, nights: int, options: dict[str, Any] | None = None) -> str:
        """Book a room.

        Args:
            city: Where.
            nights: How long.
            options: Anything else.
        """
        return city


TOOLS = Toolset.of(Tools)
SQL = "SELECT name FROM guests WHERE note = 'a \"b\"' AND n < 3"
LOOKUP = ToolCall("lookup", {"sql": SQL})
BOOK = ToolCall("book", {"city": "Łódź", "nights": 2, "options": {"quiet": True, "floors": [1, 2]}})
ARGUMENTS = {call.name: json.dumps(dict(call.arguments), ensure_ascii=False) for call in (LOOKUP, BOOK)}
L, B = ARGUMENTS["lookup"], ARGUMENTS["book"]
PYTHON_BOOK = "book(city='Łódź', nights=2, options={'quiet': True, 'floors': [1, 2]})"
PYTHON_LOOKUP = f"lookup(sql={SQL!r})"
THINK = "<think>\nPerhaps lookup(sql='x')?\n</think>\n\n"

# ruff: noqa: E501
SPOKEN: list[tuple[str, str, str, tuple[ToolCall, ...]]] = [
    ("Qwen2.5", "hermes", f'<tool_call>\n{{"name": "lookup", "arguments": {L}}}\n</tool_call>', (LOOKUP,)),
    ("Qwen3", "hermes", f'{THINK}<tool_call>\n{{"name": "book", "arguments": {B}}}\n</tool_call>', (BOOK,)),
    ("Qwen2.5-Coder, fence", "json_fence", f'```json\n{{"name": "lookup", "arguments": {L}}}\n```', (LOOKUP,)),
    ("Qwen2.5-Coder, text and fence", "json_fence", f'I look.\n\n```\n[{{"name": "book", "arguments": {B}}}]\n```', (BOOK,)),
    ("Qwen2.5-Coder, bare", "bare_json", f'{{"name": "lookup", "arguments": {L}}}', (LOOKUP,)),
    ("Qwen2.5-Coder, tools", "wrong_tag", f'<tools>\n{{"name": "book", "arguments": {B}}}\n</tools>', (BOOK,)),
    ("unclosed", "unclosed_tag", f'<tool_call>\n{{"name": "lookup", "arguments": {L}}}', (LOOKUP,)),
    ("Qwen3-Coder", "xml", f"<tool_call>\n<function=lookup>\n<parameter=sql>\n{SQL}\n</parameter>\n</function>\n</tool_call>", (LOOKUP,)),
    ("Llama 3.1", "bare_json", f'{{"name": "book", "parameters": {B}}}', (BOOK,)),
    ("Llama 3.1, typed", "bare_json", f'{{"type": "function", "name": "lookup", "parameters": {L}}}', (LOOKUP,)),
    ("Llama 3.1, tag", "llama", f'<|python_tag|>{{"name": "lookup", "parameters": {L}}}', (LOOKUP,)),
    ("Llama 3.1, function tag", "wrong_tag", f"<function=book>{B}</function>", (BOOK,)),
    ("Llama 3.2, pythonic", "python", f"[{PYTHON_BOOK}]", (BOOK,)),
    ("Llama 4, pythonic", "python", f"<|python_start|>[{PYTHON_LOOKUP}, {PYTHON_BOOK}]<|python_end|>", (LOOKUP, BOOK)),
    ("Mistral v3", "mistral", f'[TOOL_CALLS] [{{"name": "book", "arguments": {B}}}]', (BOOK,)),
    ("Mistral v3, two", "mistral", f'[TOOL_CALLS][{{"arguments": {L}, "name": "lookup"}}, {{"name": "book", "arguments": {B}}}]', (LOOKUP, BOOK)),
    ("Mistral v11", "mistral", f"[TOOL_CALLS]lookup{L}[TOOL_CALLS]book{B}", (LOOKUP, BOOK)),
    ("Mistral v11, args", "mistral", f"[TOOL_CALLS]lookup[ARGS]{L}", (LOOKUP,)),
    ("DeepSeek V3", "deepseek", f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>book\n```json\n{B}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", (BOOK,)),
    ("DeepSeek R1", "deepseek", f"Perhaps book?\n</think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>lookup\n```json\n{L}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", (LOOKUP,)),
    ("DeepSeek V3.1", "deepseek", f"I look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>lookup<｜tool▁sep｜>{L}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", (LOOKUP,)),
    ("DeepSeek V3.2", "wrong_tag", f'<｜DSML｜function_calls>\n<｜DSML｜invoke name="lookup">\n<｜DSML｜parameter name="sql" string="true">{SQL}</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>', (LOOKUP,)),
    ("GLM-4.5", "glm", f"<tool_call>book\n<arg_key>city</arg_key>\n<arg_value>Łódź</arg_value>\n<arg_key>nights</arg_key>\n<arg_value>2</arg_value>\n<arg_key>options</arg_key>\n<arg_value>{json.dumps(BOOK.arguments['options'])}</arg_value>\n</tool_call>", (BOOK,)),
    ("GLM-4.7", "glm", f"I look.<tool_call>lookup<arg_key>sql</arg_key><arg_value>{SQL}</arg_value></tool_call>", (LOOKUP,)),
    ("Kimi K2", "kimi", f"<|tool_calls_section_begin|><|tool_call_begin|>functions.book:0<|tool_call_argument_begin|>{B}<|tool_call_end|><|tool_calls_section_end|>", (BOOK,)),
    ("gpt-oss", "harmony", f"<|channel|>analysis<|message|>Perhaps lookup(sql='x').<|end|><|start|>assistant<|channel|>commentary to=functions.lookup <|constrain|>json<|message|>{L}<|call|>", (LOOKUP,)),
    ("gpt-oss, recipient first", "harmony", f"<|start|>assistant to=functions.book<|channel|>commentary json<|message|>{B}<|call|>", (BOOK,)),
    ("SmolLM3", "hermes", f'<think>\n\n</think>\n<tool_call>\n{{"name": "book", "arguments": {B}}}\n</tool_call>', (BOOK,)),
    ("SmolLM2", "hermes", f'<tool_call>[{{"name": "lookup", "arguments": {L}}}]</tool_call>', (LOOKUP,)),
    ("Hermes, text after", "hermes", f'<tool_call>\n{{"name": "lookup", "arguments": {L}}}\n</tool_call>\nI wait for the rows.', (LOOKUP,)),
    ("Granite", "wrong_tag", f'<|tool_call|>[{{"name": "lookup", "arguments": {L}}}]', (LOOKUP,)),
    ("MiniMax M2", "wrong_tag", f'<minimax:tool_call>\n<invoke name="lookup">\n<parameter name="sql">{SQL}</parameter>\n</invoke>\n</minimax:tool_call>', (LOOKUP,)),
    ("Gemma", "python", f"```tool_code\nprint({PYTHON_BOOK})\n```", (BOOK,)),
    ("ReAct", "name_and_json", f"Thought: I look.\nAction: lookup\nAction Input: {L}", (LOOKUP,)),
    ("GLM-4-9B", "name_and_json", f"book\n{B}", (BOOK,)),
    ("OpenAI, arguments as text", "native", json.dumps({"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "lookup", "arguments": L}}]}), (LOOKUP,)),
    ("Python literal", "bare_json", str({"name": "book", "arguments": dict(BOOK.arguments)}), (BOOK,)),
    ("line breaks in a string", "json_fence", '```json\n{"name": "lookup", "arguments": {"sql": "SELECT 1\n}"}}\n```', (ToolCall("lookup", {"sql": "SELECT 1\n}"}),)),
    ("nested", "bare_json", json.dumps({"thought": "I look.", "action": {"name": "lookup", "args": dict(LOOKUP.arguments)}}), (LOOKUP,)),
    ("flat", "bare_json", json.dumps({"tool": "lookup", "sql": SQL}), (LOOKUP,)),
    ("our tags", "tags", f"<book>{B}</book>", (BOOK,)),
    ("our tags, text", "tags", "I look. <lookup>SELECT 1</lookup>", (ToolCall("lookup", {"sql": "SELECT 1"}),)),
    ("our fence", "fenced", "```lookup\nSELECT 1\n```", (ToolCall("lookup", {"sql": "SELECT 1"}),)),
    ("our compact", "compact", f"@lookup {SQL}", (LOOKUP,)),
    ("our compact, object", "compact", f"I book.\n@book {B}", (BOOK,)),
]  # fmt: skip
"""Who writes it, its kind, the text, and the calls in it."""


class OfFamily(TextDialect):
    """A model family's form as a dialect, without a tokenizer."""

    name = "template"

    def __init__(self, reader: Reader):
        self._reader = reader

    def instructions(self, tools: Toolset, max_calls: int = 1) -> str:
        return ""

    def _read(self, text: str, tools: Toolset) -> Parsed:
        return self._reader(text, tools)

    def _write(self, text: str, calls: Any, tools: Toolset) -> str:
        raise ValueError


ALL: dict[str, Dialect] = {
    **{name: get_dialect(name) for name in DIALECTS},
    **{reader.__name__: OfFamily(reader) for reader in FAMILIES},
}


def plain(calls: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, dict(call.arguments)) for call in calls]


@pytest.mark.parametrize("name", ALL)
def test_every_call_is_read_or_recognised(name: str):
    dialect = ALL[name]

    def seen(row: tuple[str, str]) -> Any:
        near = near_miss(row[1], TOOLS, dialect, max_calls=2)
        return plain(dialect.parse(row[1], TOOLS).calls or (near.calls if near else ()))

    assert differing(seen, [((who, text), plain(calls)) for who, _, text, calls in SPOKEN]) == []


def test_near_misses_are_named_by_their_form():
    def kind(text: str) -> str:
        own = "native" if '"tool_calls"' not in text else "fenced"
        near = near_miss(text, TOOLS, ALL[own], max_calls=2)
        return near.kind if near else ""

    assert differing(kind, [(text, kind) for _, kind, text, _ in SPOKEN]) == []
    assert {kind for _, kind, _, _ in SPOKEN} | {"several_calls", "text_around", "malformed"} == set(FORMS)
    readers = {form.dialect for form in FORMS.values()} - {"", "template"}
    assert readers <= set(DIALECTS)
    hermes = f'<tool_call>{{"name": "lookup", "arguments": {L}}}</tool_call>'
    literal = f"<tool_call>{ {'name': 'lookup', 'arguments': {'sql': SQL}} }</tool_call>"
    rows = [(f"{hermes} I wait.", 1, "text_around"), (hermes * 2, 1, "several_calls"), (literal, 1, "malformed")]
    for text, max_calls, kind_of in rows:
        near = near_miss(text, TOOLS, ALL["hermes"], max_calls)
        assert near is not None
        assert near.kind == kind_of


NO_CALLS = [
    "I will call lookup with a query and then book a room.",
    'A row is {"name": "Bob", "arguments": {"x": 1}} in the table that lookup reads.',
    "```python\nlookup(sql)\n```",
    '{"name": "delete", "arguments": {}} is not what lookup does.',
    "<think>lookup(sql='x')",
    "lookup: see {...}",
    'The lookup table is {"rows": 3}.',
    "{'name': 'lookup', 'arguments': {'sql': '\\ud800'}}",
    '{"name": "lookup", "arguments": {"sql": "\ud800\n"}}',
]


@pytest.mark.parametrize("name", DIALECTS)
def test_prose_and_calls_of_other_tools_are_no_near_misses(name: str):
    assert differing(lambda text: near_miss(text, TOOLS, ALL[name]), [(text, None) for text in NO_CALLS]) == []


def test_json_that_names_no_tool_may_be_the_text_of_a_call():
    [call] = ALL["fenced"].parse('```json\n{"name": "Bob", "type": "person"}\n```', TOOLS).calls
    assert (call.name, call.arguments) == ("lookup", {"sql": '{"name": "Bob", "type": "person"}'})


GARBAGE = [
    '{"name": "lookup", ', '{"name": {', "lookup(", "lookup {", "lookup ", "[lookup(", "<function=lookup>", "\n@lookup ",
    "<tool_call>lookup<arg_key>", '<invoke name="lookup">', "```lookup\n", "<lookup>", "{'", "lookup<x>", "</think>", "(",
    "lookup(sql='", "<|end|><|start|>", "functions.", "lookup:0",
]  # fmt: skip


def test_long_garbage_is_read_in_linear_time():
    """Quadratic work would exceed the timeout of the test."""
    texts = {unit: "lookup " + unit * ((MAX_ACTION_CHARS - 10) // len(unit)) for unit in GARBAGE}
    assert [unit for unit, text in texts.items() if near_miss(text, TOOLS, ALL["hermes"])] == ["\n@lookup "]


# Near misses in an environment.


def played(*actions: Any, **kwargs: Any) -> tuple[Any, list[str], list[dict[str, float]]]:
    """Return the environment, and the observations and channels of the turns."""
    env = started(**kwargs)
    results = [env.step(action) for action in actions]
    texts = ["\n".join(map(text_of, result.observation)) for result in results]
    return results[-1], texts, [result.info["rewards"] for result in results]


FENCED_ADD = '```json\n{"name": "add", "arguments": {"number": 2}}\n```'
BARE_DONE = '{"name": "done", "arguments": {}}'


@pytest.mark.parametrize("name", DIALECTS)
def test_the_error_shows_the_models_own_call_once_and_near_misses_are_counted(name: str):
    last, texts, channels = played(FENCED_ADD, FENCED_ADD, BARE_DONE, dialect=name)
    form = get_dialect(name).render("", [ToolCall("add", {"number": 2})], Counter.tools)
    assert texts[0].endswith(form)
    assert len(texts[1]) < len(texts[0])
    assert [text.count("so it did not run") for text in texts] == [1, 1, 1]
    assert (last.truncated, last.info["counts"]["format_errors"]) == (True, 3)
    assert (last.info["counts"]["near_misses/json_fence"], last.info["counts"]["near_misses/bare_json"]) == (2, 1)
    assert [channel["format"] for channel in channels] == [0, 0, 0]


class Listener(Counter):
    def respond(self, text: str) -> str:
        return "I hear."


def test_only_refused_turns_are_near_misses_and_the_form_is_shown_before_it_is_referred_to():
    twice = assistant("", [ToolCall("add", {"number": 1}), ToolCall("done")])
    _, texts, _ = played(twice, FENCED_ADD, FENCED_ADD, dialect="tags")
    assert ["Write exactly this" in text for text in texts] == [False, True, False]
    result = started(Listener, dialect="tags", max_turns=1).step(FENCED_ADD)
    assert text_of(result.observation[0]) == "I hear."
    assert not any(name.startswith("near_misses") for name in result.info["counts"])


@pytest.mark.parametrize("name", DIALECTS)
def test_a_lenient_environment_runs_near_misses_without_the_reward_for_the_format(name: str):
    last, texts, channels = played(FENCED_ADD, "add(number=1)\nadd(number=13)", BARE_DONE, dialect=name, lenient=True)
    assert "count 2" in texts[0]
    assert "count 3" in texts[1], "one call is allowed, so the second does not run"
    assert "did not run" in texts[1]
    assert (last.terminated, last.info["is_success"], last.info["counts"]["format_errors"]) == (True, True, 0)
    assert (last.info["counts"]["near_misses/json_fence"], last.info["counts"]["near_misses/python"]) == (1, 1)
    assert [channel["format"] for channel in channels] == [0, 0, 0]


def test_several_calls_where_one_is_allowed():
    calls = [ToolCall("add", {"number": 1}), ToolCall("add", {"number": 2})]
    text = get_dialect("hermes").render("", calls, Counter.tools)
    for action in (text, assistant("", calls)):
        last, texts, _ = played(action, assistant("", [ToolCall("done")]))
        assert "None of them ran." in texts[0]
        assert last.info["counts"]["near_misses/several_calls"] == 1
        _, texts, _ = played(action, lenient=True)
        assert "count 1" in texts[0]
        assert "count 3" not in texts[0]


# Turns that are cut off.


WHOLE = {
    **{name: get_dialect(name).render("", [ToolCall("add", {"number": 2})], Counter.tools) for name in DIALECTS},
    "message": assistant("", [ToolCall("add", {"number": 2})]),
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("lenient", [False, True])
def test_nothing_in_a_turn_that_was_cut_off_runs(name: str, lenient: bool):
    dialect = name if name in DIALECTS else "native"
    cut = finished(WHOLE[name], "MAX_TOKENS", 7)
    last, texts, channels = played(cut, finished(WHOLE[name], "stop"), finished(BARE_DONE, "max_output_tokens"),
                                   assistant("", [ToolCall("done")]), dialect=dialect, lenient=lenient)  # fmt: skip
    assert "cut off at its limit of 7 tokens" in texts[0]
    assert "count 2" in texts[1], "a whole turn runs"
    assert "cut off at its limit of tokens" in texts[2]
    counts = last.info["counts"]
    assert (counts["calls"], counts["format_errors"], counts["errors/cut_off"]) == (2, 2, 2)
    assert [channel["format"] for channel in channels] == [0, 1, 0, 1]
    assert not any(name.startswith("near_misses") for name in counts)
