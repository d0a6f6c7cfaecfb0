"""Tools: schemas from signatures, arguments checked, mistakes explained."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from agentgym.errors import ToolError, UsageError
from agentgym.messages import ToolCall
from agentgym.toolset import MethodTool, Tool, ToolOptions, Toolset, bounded, tool


class Row(BaseModel):
    title: str
    size: int = 1


@dataclass
class Point:
    x: int
    y: float = 0.5


class Options(TypedDict):
    deep: bool


class Tools:
    @tool
    def query(
        self, sql: str, limit: int = 10, mode: Literal["fast", "exact"] = "fast", after: str | None = None
    ) -> str:
        """Run a query.

        It may be slow.

        Args:
            sql: The query,
                over two lines.
            limit: How many rows.
            mode: How.
            after: Where to go on.
        """
        return f"{sql}/{limit}/{mode}/{after}"

    @tool(name="store", max_chars=100)
    async def put(self, row: Row, point: Point, options: Options, tags: list[str], extra: dict[str, Any]) -> Any:
        """Store something.

        Args:
            row: A row.
            point: A point.
            options: Options.
            tags: Tags.
            extra: Anything.
        """
        return row, point, options, tags, extra

    @tool
    def odd(
        self, schema: str, copy: int, title: str, self_: bool, json: float, size: Annotated[int, Field(ge=1)]
    ) -> dict:
        """Take parameters with difficult names.

        Args:
            schema: A.
            copy: B.
            title: C.
            self_: D.
            json: E.
            size: F.
        """
        return {"schema": schema, "copy": copy, "title": title, "self_": self_, "json": json, "size": size}

    @tool
    def nothing(self) -> None:
        """Do nothing."""


TOOLS = Toolset.of(Tools)
STORE = {"row": {"title": "t"}, "point": {"x": 1}, "options": {"deep": True}, "tags": ["a"], "extra": {"k": [None]}}


def one(method: Any) -> Tool:
    return MethodTool(method, ToolOptions())


def test_the_schema_says_what_signature_and_docstring_say():
    schema = TOOLS.get("query").schema
    assert schema["type"] == "function"
    assert schema["function"]["description"] == "Run a query.\n\nIt may be slow."
    parameters = schema["function"]["parameters"]
    assert parameters["required"] == ["sql"]
    assert parameters["additionalProperties"] is False
    assert parameters["properties"]["sql"] == {"description": "The query,\nover two lines.", "type": "string"}
    assert parameters["properties"]["limit"] == {"default": 10, "description": "How many rows.", "type": "integer"}
    assert parameters["properties"]["mode"]["enum"] == ["fast", "exact"]
    assert parameters["properties"]["after"]["anyOf"] == [{"type": "string"}, {"type": "null"}]


def test_schemas_are_valid_and_describe_nested_types():
    for schema in TOOLS.schemas:
        jsonschema.Draft202012Validator.check_schema(schema["function"]["parameters"])
    parameters = TOOLS.get("store").parameters
    jsonschema.validate(STORE, parameters)
    assert parameters["$defs"]["Row"]["properties"]["title"] == {"type": "string"}
    assert set(parameters["$defs"]) == {"Row", "Point", "Options"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(STORE | {"point": {"y": 1}}, parameters)


def test_titles_go_but_values_called_title_stay():
    class Own:
        @tool
        def make(self, row: dict[str, str] = {"title": "x"}) -> None:  # noqa: B006
            """Make.

            Args:
                row: A row.
            """

    assert Toolset.of(Own).get("make").parameters["properties"]["row"]["default"] == {"title": "x"}
    assert "title" not in TOOLS.get("query").parameters


def test_schemas_are_new_data():
    TOOLS.schemas[0]["function"]["parameters"]["properties"].clear()
    assert TOOLS.schemas[0]["function"]["parameters"]["properties"]


def test_arguments_are_coerced_and_defaults_filled_in():
    checked = TOOLS.check(ToolCall("query", {"sql": 5, "limit": "7"}))
    assert checked == {"sql": "5", "limit": 7, "mode": "fast", "after": None}
    assert Tools().query(**checked) == "5/7/fast/None"


def test_nested_arguments_arrive_as_their_types():
    checked = TOOLS.check(ToolCall("store", STORE))
    row, point, options, tags, extra = asyncio.run(Tools().put(**checked))
    assert (row, point, options) == (Row(title="t"), Point(1), {"deep": True})
    assert (tags, extra) == (["a"], {"k": [None]})
    assert TOOLS.get("store").is_async
    assert not TOOLS.get("query").is_async


def test_parameters_may_have_any_name():
    arguments = {"schema": "s", "copy": 1, "title": "t", "self_": True, "json": 0.5, "size": 2}
    assert Tools().odd(**TOOLS.check(ToolCall("odd", arguments))) == arguments
    assert list(TOOLS.get("odd").parameters["properties"]) == list(arguments)


@pytest.mark.parametrize(
    ("arguments", "pattern"),
    [
        (
            {},
            r"query: argument 'sql' is missing. Usage: query\(sql: string, limit: integer = 10, mode: \"fast\"",
        ),
        ({"sql": "a", "rows": 1}, "there is no argument 'rows'"),
        ({"sql": "a", "argument_sql": "b"}, "there is no argument 'argument_sql'"),
        ({"sql": "a", "limit": "many"}, "argument 'limit': .*valid integer.*got 'many'"),
        ({"sql": "a", "limit": None}, "argument 'limit': .*valid integer.*got None"),
        ({"sql": ["a"]}, r"argument 'sql': .*valid string.*got \['a'\]"),
        ({"sql": "a", "mode": "slow"}, "'fast' or 'exact'"),
        ({1: 2, "sql": "a"}, "query: "),
        ([], "the arguments must be an object"),
        ("sql", "the arguments must be an object"),
    ],
)
def test_wrong_arguments_are_explained(arguments, pattern):
    with pytest.raises(ToolError, match=pattern):
        TOOLS.get("query").check(arguments)


def test_mistakes_in_nested_arguments_are_located_and_constraints_named():
    with pytest.raises(ToolError, match=r"argument 'point.x' is missing"):
        TOOLS.get("store").check(STORE | {"point": {}})
    with pytest.raises(ToolError, match="greater than or equal to 1"):
        TOOLS.get("odd").check({"schema": "", "copy": 1, "title": "", "self_": True, "json": 1, "size": 0})


def test_huge_or_deep_arguments_give_short_errors():
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for value in ("x" * 1_000_000, deep, {str(n): n for n in range(10_000)}):
        with pytest.raises(ToolError) as caught:
            TOOLS.get("query").check({"sql": "a", "limit": value})
        assert len(str(caught.value)) < 700


def test_an_unknown_tool_is_answered_with_the_nearest_and_all():
    with pytest.raises(ToolError, match=r"no tool 'qery'. Did you mean 'query'\? Tools: query, store, odd, nothing\."):
        TOOLS.check(ToolCall("qery", {}))
    with pytest.raises(ToolError) as caught:
        TOOLS.get("x" * 1_000_000)
    assert len(str(caught.value)) < 400


def test_toolset_is_ordered_and_sized():
    assert TOOLS.names == ("query", "store", "odd", "nothing")
    assert len(TOOLS) == 4
    assert "store" in TOOLS
    assert "put" not in TOOLS


def test_overrides_replace_and_undecorated_overrides_remove():
    class Child(Tools):
        @tool
        def query(self, text: str) -> str:
            """Ask.

            Args:
                text: The question.
            """
            return text

        def nothing(self) -> None: ...

        @tool
        def more(self) -> None:
            """Do more."""

    tools = Toolset.of(Child)
    assert tools.names == ("query", "store", "odd", "more")
    assert list(tools.get("query").parameters["properties"]) == ["text"]


def no_docstring(self) -> None: ...


def no_type(self, a) -> None:
    """Do.

    Args:
        a: A.
    """


def no_line(self, a: int) -> None:
    """Do."""


def many(self, *a: int) -> None:
    """Do.

    Args:
        a: A.
    """


def strange(self, a: asyncio.Queue) -> None:
    """Do.

    Args:
        a: A.
    """


def unknown_type(self, a: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821
    """Do.

    Args:
        a: A.
    """


@pytest.mark.parametrize(
    ("method", "pattern"),
    [
        (no_docstring, "'no_docstring' needs a docstring"),
        (no_type, "parameter 'a' needs a type"),
        (no_line, "parameter 'a' needs a type and a line under 'Args:'"),
        (many, "'a' must be passable by name"),
        (strange, "no JSON schema"),
        (unknown_type, "no JSON schema.*Nowhere"),
    ],
)
def test_authors_mistakes_are_found_at_once(method, pattern):
    with pytest.raises(UsageError, match=pattern):
        one(method)


def test_tool_names_must_be_usable_and_unique():
    class Twice:
        @tool(name="go")
        def a(self) -> None:
            """Go."""

        @tool(name="go")
        def b(self) -> None:
            """Go."""

    with pytest.raises(UsageError, match="two tools are called 'go'"):
        Toolset.of(Twice)
    with pytest.raises(UsageError, match="tool name 'a b'"):
        MethodTool(Twice.a, ToolOptions(name="a b"))
    with pytest.raises(UsageError, match="plain methods"):
        tool(staticmethod(Twice.a))


def test_results_are_text():
    assert bounded(None, 100) == "done"
    assert bounded("é", 100) == "é"
    assert bounded([Point(1), {"k": "é"}], 100) == '[{"x": 1, "y": 0.5}, {"k": "é"}]'
    assert bounded(b"a\xff", 100) == "a\ufffd"
    assert bounded("a\udcff", 100) == "a?"
    assert bounded([b"\xff"], 100) == r"[b'\xff']"
    itself: list[Any] = []
    itself.append(itself)
    assert bounded(itself, 100) == "[[...]]"


@pytest.mark.parametrize("limit", [0, 10, 60, 100, 8000])
def test_long_results_are_cut_with_a_note(limit):
    text = bounded("x" * 10_000, limit)
    assert len(text) <= limit
    if limit >= 100:
        assert f"[cut: 10000 characters, of which the first {text.count('x')} are shown]" in text
        assert bounded("x" * limit, limit) == "x" * limit
