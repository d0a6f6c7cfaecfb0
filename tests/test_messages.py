"""Chat messages: calls are read from what policies and APIs send."""

from __future__ import annotations

import json
from types import MappingProxyType

import pytest

from agentgym.errors import ToolError
from agentgym.messages import ToolCall, assistant, calls_of, text_of, tool_result


def message(arguments: object) -> dict:
    return {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "sql", "arguments": arguments}}]}


@pytest.mark.parametrize("arguments", [{"q": "é"}, '{"q": "é"}', MappingProxyType({"q": "é"})])
def test_arguments_may_be_an_object_or_its_json(arguments):
    assert calls_of(message(arguments)) == (ToolCall("sql", {"q": "é"}, "c1"),)


@pytest.mark.parametrize("arguments", [None, "", " ", {}, "{}"])
def test_no_arguments_are_an_empty_object(arguments):
    assert calls_of(message(arguments))[0].arguments == {}


@pytest.mark.parametrize(
    ("arguments", "pattern"),
    [
        ("{q: 1}", "'sql' cannot be read: this is not valid JSON.*character 2"),
        ("[]", "JSON object {...} was expected, not a list"),
        ([], "must be an object, not a list"),
        (0, "must be an object, not a number"),
        ('{"q": 1, "q": 2}', "'q' appears twice"),
        ('{"q": NaN}', "NaN is not allowed"),
        ({"q": float("inf")}, "Infinity are not allowed"),
        ({"q": "\udc80"}, "is not text"),
        ("[" * 100_000, "nested more than"),
    ],
)
def test_unusable_arguments_are_the_models_mistake(arguments, pattern):
    with pytest.raises(ToolError, match=pattern):
        calls_of(message(arguments))


@pytest.mark.parametrize("entries", ["x", {"a": 1}, [None], [{}], [{"function": "f"}], [{"function": {"name": 3}}]])
def test_misshapen_tool_calls_are_the_models_mistake(entries):
    with pytest.raises(ToolError, match=r"tool call|tool_calls"):
        calls_of({"role": "assistant", "tool_calls": entries})


def test_calls_survive_the_message_form():
    call = ToolCall("sql", {"q": "é"}, "c1")
    assert calls_of(assistant("Look.", [call])) == (call,)
    assert json.loads(call.to_dict(arguments_as_text=True)["function"]["arguments"]) == {"q": "é"}
    assert calls_of(json.loads(json.dumps(assistant("", [call])))) == (call,)
    assert tool_result(call, "ok") == {"role": "tool", "tool_call_id": "c1", "name": "sql", "content": "ok"}


def test_text_of_joins_text_blocks_and_leaves_out_the_rest():
    blocks = [{"type": "text", "text": "a"}, {"type": "image", "image": 1}, {"type": "text", "text": "b"}, "x", {}]
    assert text_of({"content": blocks}) == "ab"
    assert text_of({"content": None}) == ""
    assert text_of({"content": "ab"}) == "ab"
