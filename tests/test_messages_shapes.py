"""Messages in whatever shape they come: pictures are counted, text is found, limits of what is quoted are kept."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym.errors import ToolError
from agentgym.messages import (
    ToolCall,
    assistant,
    calls_of,
    pictures_in,
    system,
    text_of,
    tool_result,
    user,
    with_pictures,
)


def test_pictures_are_counted_and_text_is_found_beside_them():
    seen = with_pictures(user("two"), (b"one", b"other"))
    assert (pictures_in(seen), text_of(seen)) == (2, "two")
    assert (pictures_in(user("two")), with_pictures(user("two"), ())) == (0, user("two"))
    assert seen.get("role") == "user"


@pytest.mark.parametrize(
    ("content", "text", "pictures"),
    [
        (None, "", 0),
        (5, "", 0),
        ({"type": "text", "text": "x"}, "", 0),
        ([], "", 0),
        (["x", {"type": "text", "text": "a"}, {"type": "text"}, {"type": "image"}, {"text": "b"}], "a", 1),
        (({"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "image"}), "ab", 1),
    ],
)
def test_content_of_any_shape_is_read(content: Any, text: str, pictures: int):
    message = {"role": "user", "content": content}
    assert (text_of(message), pictures_in(message)) == (text, pictures)


def test_each_kind_of_message_has_its_role():
    call = ToolCall("look", {}, "7")
    roles = [m.get("role") for m in (system("a"), user("b"), assistant("c"), tool_result(call, "d"))]
    assert roles == ["system", "user", "assistant", "tool"]
    assert "tool_calls" not in assistant("c")
    assert "tool_calls" not in assistant("c", [])


def test_all_calls_of_a_message_are_read_in_order():
    calls = [ToolCall("look", {"n": n}, str(n)) for n in range(3)]
    assert calls_of(assistant("", calls)) == tuple(calls)
    assert calls_of({"role": "assistant", "tool_calls": None}) == ()
    assert calls_of(user("x")) == ()


def test_a_call_without_an_id_or_with_a_number_as_one_has_text():
    def entry(**more: Any) -> Any:
        return {"tool_calls": [{"function": {"name": "look"}, **more}]}

    assert [calls_of(entry(**more))[0].id for more in ({}, {"id": None}, {"id": 5})] == ["", "", "5"]


def test_a_name_in_an_error_is_cut_at_a_hundred_characters():
    for arguments in ("{", []):
        with pytest.raises(ToolError) as caught:
            calls_of({"tool_calls": [{"function": {"name": "n" * 101, "arguments": arguments}}]})
        assert f"The arguments of '{'n' * 100}' " in str(caught.value)
