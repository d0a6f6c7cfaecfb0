"""Of an unfinished turn, every dialect can say how much will be text, however the turn goes on."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given

from agentgym.dialects import get_dialect
from agentgym.dialects.text import TextDialect, begun
from tests.test_dialects import EXAMPLES, NAMES, TOOLS, WILD

CALLS = {
    "hermes": '<tool_call>\n{"name": "tables", "arguments": {}}\n</tool_call>',
    "tags": "<tables/>",
    "fenced": "```tables\n\n```",
    "compact": "@tables",
    "native": '{"tool_calls": [{"function": {"name": "tables", "arguments": {}}}]}',
}


def dialect_of(name: str) -> TextDialect:
    found = get_dialect(name)
    assert isinstance(found, TextDialect)
    return found


def said(dialect: TextDialect, text: str) -> str:
    """What a turn says besides its calls. One that cannot be read is all text."""
    parsed = dialect.parse(text, TOOLS)
    return text if parsed.error is not None else parsed.text


@pytest.mark.parametrize("name", NAMES)
@EXAMPLES
@given(text=WILD)
@example(text="<think>\n<tool_call></think>\n```\n@tables")
def test_what_is_settled_stays_text_whatever_follows(name: str, text: str):
    dialect = dialect_of(name)
    whole = said(dialect, text)
    for end in range(len(text) + 1):
        before = text[:end]
        assert whole.startswith(before[: dialect.settled(before, TOOLS)])


@pytest.mark.parametrize("name", NAMES)
def test_a_call_is_held_back_from_its_first_character_on_and_text_is_not(name: str):
    dialect = dialect_of(name)
    text = "If a < b and `c` then {d} or e@f, as said.\nSo:"
    whole = f"{text}\n{CALLS[name]}"
    assert len(dialect.parse(whole, TOOLS).calls) == 1
    settled = [dialect.settled(whole[:end], TOOLS) for end in range(len(whole) + 1)]
    assert settled[len(text) :] == [len(text)] * (len(whole) + 1 - len(text))
    late = [end - known for end, known in enumerate(settled[: len(text)])]
    assert max(late) <= 3, "text waits for no more than what could begin a call"


@pytest.mark.parametrize("name", NAMES)
def test_reasoning_is_text_even_while_it_is_open(name: str):
    thought = f"<think>\n{CALLS[name]} comes to mind"
    assert dialect_of(name).settled(thought, TOOLS) == len(thought)


def test_a_pattern_of_a_beginning_matches_beginnings_at_the_end_only():
    pattern = re.compile(begun("<a.b>"))
    assert [bool(pattern.search(text)) for text in ("x<", "<a", "<a.", "<a.b", "x<a.b>y")] == [True] * 5
    assert [bool(pattern.search(text)) for text in ("", "x", "< ", "<a,b>", "<a.x")] == [False] * 5
