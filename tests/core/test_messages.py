"""Chat messages of any shape: calls are read, text is joined, pictures are counted."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

from agentgym.base.errors import ToolError
from agentgym.core.messages import ToolCall, assistant, calls_of, pictures_in, text_of, user, with_pictures
from tests.refusals import differing, not_refused, refusal


def message(arguments: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "sql", "arguments": arguments}}]}


def test_arguments_may_be_an_object_or_its_json_or_missing():
    rows: list[tuple[Any, Any]] = [(value, {"q": "é"}) for value in ({"q": "é"}, '{"q": "é"}')]
    rows += [(MappingProxyType({"q": "é"}), {"q": "é"}), *((nothing, {}) for nothing in (None, "", " ", {}, "{}"))]
    assert differing(lambda arguments: dict(calls_of(message(arguments))[0].arguments), rows) == []


def test_unusable_arguments_and_malformed_calls_are_the_models_mistake():
    rows: list[tuple[Any, str]] = [
        ("{q: 1}", "'sql' cannot be read: this is not valid JSON"),
        ("[]", "JSON object {...} was expected, not a list"),
        ([], "must be an object, not a list"),
        (0, "must be an object, not a number"),
        ('{"q": 1, "q": 2}', "'q' appears twice"),
        ('{"q": NaN}', "NaN is not allowed"),
        ({"q": float("inf")}, "Infinity are not allowed"),
        ({"q": "\udc80"}, "is not text"),
        ("[" * 100_000, "nested more than"),
    ]
    assert not_refused(lambda arguments: calls_of(message(arguments)), rows, ToolError) == []
    entries: list[Any] = ["x", {"a": 1}, [None], [{}], [{"function": "f"}], [{"function": {"name": 3}}]]
    shapes = [({"role": "assistant", "tool_calls": entry}, "tool") for entry in entries]
    assert not_refused(calls_of, shapes, ToolError) == []
    for arguments in ("{", []):
        long: Any = {"tool_calls": [{"function": {"name": "n" * 101, "arguments": arguments}}]}
        assert f"The arguments of '{'n' * 100}' " in refusal(lambda long=long: calls_of(long), raises=ToolError)


def test_calls_survive_the_message_form_in_order():
    calls = [ToolCall("sql", {"q": "é", "n": n}, str(n)) for n in range(3)]
    assert calls_of(assistant("Look.", calls)) == tuple(calls)
    assert calls_of(json.loads(json.dumps(assistant("", calls)))) == tuple(calls)
    assert json.loads(calls[0].to_dict(arguments_as_text=True)["function"]["arguments"]) == {"q": "é", "n": 0}
    assert calls_of({"role": "assistant", "tool_calls": None}) == calls_of(user("x")) == ()


def test_a_missing_or_numeric_call_id_becomes_text():
    def id_in(more: dict[str, Any]) -> str:
        entry: Any = {"tool_calls": [{"function": {"name": "look"}, **more}]}
        return calls_of(entry)[0].id

    assert [id_in(more) for more in ({}, {"id": None}, {"id": 5})] == ["", "", "5"]


def test_text_is_joined_and_pictures_counted_in_content_of_any_shape():
    rows: list[tuple[Any, tuple[str, int]]] = [
        (None, ("", 0)),
        (5, ("", 0)),
        ("ab", ("ab", 0)),
        ({"type": "text", "text": "x"}, ("", 0)),
        ([], ("", 0)),
        (["x", {}, {"type": "text", "text": "a"}, {"type": "text"}, {"type": "image"}, {"text": "b"}], ("a", 1)),
        (({"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "image"}), ("ab", 1)),
    ]
    assert differing(lambda content: (text_of({"content": content}), pictures_in({"content": content})), rows) == []
    pictured = with_pictures(user("two"), (b"one", b"other"))
    assert (pictures_in(pictured), text_of(pictured), pictured.get("role")) == (2, "two", "user")
    assert with_pictures(user("two"), ()) == user("two")
