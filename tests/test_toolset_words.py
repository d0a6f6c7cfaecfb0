"""What a model reads of a tool, to the letter: types in a word, errors of bounded length, results cut at the limit."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym.errors import ToolError, UsageError
from agentgym.messages import ToolCall
from agentgym.toolset import MAX_RESULT_CHARS, MethodTool, ToolOptions, Toolset, bounded, kind_of, tool


class Tools:
    @tool
    def look(self, what: str, near: str = "über", *, deep: bool = False) -> str:
        """Look at something.

        Args:
            what: What.
            near: Where.
            deep: How.
        """
        return f"{what} {near} {deep}"

    @tool(name="a.b-c_1", max_chars=7)
    def short(self, a: int, b: int, c: int, d: int, e: int, f: int) -> None:
        """Take six numbers.

        Args:
            a: 1.
            b: 2.
            c: 3.
            d: 4.
            e: 5.
            f: 6.
        """


TOOLS = Toolset.of(Tools)


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({"type": "integer"}, "integer"),
        ({"type": "array", "items": {"type": "string"}}, "list of string"),
        ({"type": "array"}, "array"),
        ({"items": {"type": "string"}}, "any"),
        ({"type": "object", "items": {}}, "object"),
        ({"enum": ["süß", 1]}, '"süß"|1'),
        ({"anyOf": [{"type": "array", "items": {"type": "null"}}, {"type": "null"}]}, "list of null|null"),
        ({"$ref": "#/$defs/Row"}, "object"),
        ({}, "any"),
    ],
)
def test_a_schema_is_a_word_or_two(schema: dict[str, Any], word: str):
    assert kind_of(schema) == word


def test_the_usage_names_every_parameter_its_type_and_its_default():
    assert TOOLS.get("look").usage == 'look(what: string, near: string = "\\u00fcber", deep: boolean = false)'


def test_parameters_by_name_only_are_parameters():
    assert Tools().look(**TOOLS.check(ToolCall("look", {"what": "x", "deep": True}))) == "x über True"


def test_no_more_than_five_mistakes_are_explained_at_once():
    with pytest.raises(ToolError) as caught:
        TOOLS.get("a.b-c_1").check({})
    assert [name for name in "abcdef" if f"argument '{name}' is missing" in str(caught.value)] == list("abcde")


def test_every_mistake_is_told_apart():
    with pytest.raises(ToolError) as caught:
        TOOLS.get("look").check({"near": 1.5, "deep": "perhaps", "else": 1})
    said = str(caught.value)
    assert "argument 'what' is missing." in said
    assert "there is no argument 'else'." in said
    assert "argument 'deep': Input should be a valid boolean" in said
    assert "got 'perhaps'." in said
    assert "near" not in said.partition("Usage:")[0]


def test_names_in_errors_are_cut_at_a_hundred_characters():
    with pytest.raises(ToolError) as caught:
        TOOLS.get("look").check({"what": "x", "n" * 101: 1})
    assert f"there is no argument '{'n' * 100}'." in str(caught.value)
    with pytest.raises(ToolError) as caught:
        TOOLS.get("n" * 101)
    assert f"There is no tool '{'n' * 100}'. Tools: look, a.b-c_1." in str(caught.value)


def test_what_was_given_instead_is_shown_in_short():
    with pytest.raises(ToolError) as caught:
        TOOLS.get("look").check({"what": "x", "deep": "y" * 10_000})
    shown = str(caught.value).partition("got ")[2].partition(". Usage")[0]
    assert len(shown) == 80
    assert "..." in shown


def test_a_tool_says_how_long_its_results_may_be():
    assert TOOLS.get("a.b-c_1").max_chars == 7
    assert TOOLS.get("look").max_chars == MAX_RESULT_CHARS == 8_000


@pytest.mark.parametrize("name", ["", "1st", "a b", "é", "a" * 65, "-a"])
def test_names_that_models_could_not_call_are_refused(name: str):
    with pytest.raises(UsageError, match="must be up to 64"):
        Toolset([MethodTool(Tools.look, ToolOptions(name=name or " "))])


def test_a_name_may_have_64_characters():
    assert MethodTool(Tools.look, ToolOptions(name="a" * 64)).name == "a" * 64


def test_a_choice_of_tools_keeps_its_order_and_refuses_what_is_not_there():
    assert TOOLS.only("a.b-c_1", "look").names == ("a.b-c_1", "look")
    with pytest.raises(UsageError, match=r"there is no tool 'lok'; there are: look, a\.b-c_1"):
        TOOLS.only("look", "lok")


@pytest.mark.parametrize("limit", [100, 101, 1_000])
def test_a_cut_result_is_as_long_as_it_may_be(limit: int):
    text = bounded("x" * 2_000, limit)
    kept = text.count("x")
    assert text == "x" * kept + f"\n[cut: 2000 characters, of which the first {kept} are shown]"
    assert limit - 16 < len(text) <= limit


def test_a_result_of_exactly_the_limit_is_not_cut():
    assert bounded("x" * 100, 100) == "x" * 100
    assert "[cut: 101 characters" in bounded("x" * 101, 100)


def test_a_tool_of_something_else_than_a_plain_method_is_refused():
    def given(self: Any) -> None:
        """Do."""

    class Odd:
        def __init__(self, options: Any):
            self.__agentgym_tool__ = options

    owner = type("Owner", (), {"odd": Odd(ToolOptions())})
    with pytest.raises(UsageError, match="tool 'odd' of Owner must be a plain method"):
        Toolset.of(owner)
    assert Toolset.of(type("Fine", (), {"given": tool(given)})).names == ("given",)
