"""Tools: schemas from signatures, argument checks, explained mistakes, bounded results."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from agentgym.base.errors import ToolError, UsageError
from agentgym.core.messages import ToolCall
from agentgym.core.toolset import MAX_RESULT_CHARS, MethodTool, ToolOptions, Toolset, bounded, schema_kind, tool
from tests.refusals import differing, not_refused, refusal


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
            after: Where to continue.
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


# Schemas.


def test_the_schema_comes_from_signature_and_docstring():
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


def test_usage_abbreviates_types():
    rows = [
        ({"type": "integer"}, "integer"),
        ({"type": "array", "items": {"type": "string"}}, "list of string"),
        ({"type": "array"}, "array"),
        ({"items": {"type": "string"}}, "any"),
        ({"type": "object", "items": {}}, "object"),
        ({"enum": ["süß", 1]}, '"süß"|1'),
        ({"anyOf": [{"type": "array", "items": {"type": "null"}}, {"type": "null"}]}, "list of null|null"),
        ({"$ref": "#/$defs/Row"}, "object"),
        ({}, "any"),
    ]
    assert differing(schema_kind, rows) == []
    usage = 'look(what: string, near: string = "\\u00fcber", deep: boolean = false)'
    assert Toolset.of(Words).get("look").usage == usage


# Mistakes of models.

WRONG: list[tuple[Any, str]] = [
    ({}, "query: argument 'sql' is missing. Usage: query(sql: string, limit: integer = 10, mode: \"fast\""),
    ({"sql": "a", "rows": 1}, "there is no argument 'rows'"),
    ({"sql": "a", "argument_sql": "b"}, "there is no argument 'argument_sql'"),
    ({"sql": "a", "limit": "many"}, "argument 'limit': Input should be a valid integer"),
    ({"sql": "a", "limit": "many"}, "got 'many'"),
    ({"sql": "a", "limit": None}, "got None"),
    ({"sql": ["a"]}, "got ['a']"),
    ({"sql": "a", "mode": "slow"}, "'fast' or 'exact'"),
    ({1: 2, "sql": "a"}, "query: "),
    ([], "the arguments must be an object"),
    ("sql", "the arguments must be an object"),
]


def test_wrong_arguments_are_explained():
    assert not_refused(TOOLS.get("query").check, WRONG, ToolError) == []
    assert (
        not_refused(TOOLS.get("store").check, [(STORE | {"point": {}}, "argument 'point.x' is missing")], ToolError)
        == []
    )
    odd = {"schema": "", "copy": 1, "title": "", "self_": True, "json": 1, "size": 0}
    assert not_refused(TOOLS.get("odd").check, [(odd, "greater than or equal to 1")], ToolError) == []


class Words:
    @tool
    def look(self, what: str, near: str = "über", *, deep: bool = False) -> str:
        """Look at something.

        Args:
            what: What.
            near: Where.
            deep: How.
        """
        return f"{what} {near} {deep}"


def test_huge_or_deep_arguments_and_names_give_short_errors():
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for value in ("x" * 1_000_000, deep, {str(n): n for n in range(10_000)}):
        text = refusal(lambda value=value: TOOLS.get("query").check({"sql": "a", "limit": value}), raises=ToolError)
        assert len(text) < 700
    look = Toolset.of(Words).get("look")
    text = refusal(lambda: look.check({"what": "x", "deep": "y" * 10_000}), raises=ToolError)
    quotation = text.partition("got ")[2].partition(". Usage")[0]
    assert (len(quotation), "..." in quotation) == (80, True)
    assert f"there is no argument '{'n' * 100}'." in refusal(
        lambda: look.check({"what": "x", "n" * 101: 1}), raises=ToolError
    )
    assert f"There is no tool '{'n' * 100}'. Tools: " in refusal(TOOLS.get, "n" * 101, raises=ToolError)


def test_an_unknown_tool_gets_a_suggestion_and_the_list():
    words = "no tool 'qery'. Did you mean 'query'? Tools: query, store, odd, nothing."
    assert words in refusal(lambda: TOOLS.check(ToolCall("qery", {})), raises=ToolError)
    assert "There are none; write text" in refusal(lambda: Toolset(()).get("fly"), raises=ToolError)


# Sets of tools.


def test_a_toolset_and_its_subsets_are_ordered():
    assert (TOOLS.names, len(TOOLS)) == (("query", "store", "odd", "nothing"), 4)
    assert ("store" in TOOLS, "put" in TOOLS) == (True, False)
    assert TOOLS.only("odd", "query").names == ("odd", "query")
    assert "there is no tool 'qery'; there are: query, store" in refusal(lambda: TOOLS.only("store", "qery"))


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
def no_type(self, a) -> None: ...
def many(self, *a: int) -> None: ...
def strange(self, a: asyncio.Queue) -> None: ...
def unknown_type(self, a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def no_line(self, a: int) -> None:
    """Do."""


for _method in (no_type, many, strange, unknown_type):
    _method.__doc__ = "Do.\n\nArgs:\n    a: A."


def test_authors_mistakes_are_reported_on_definition():
    rows = [
        (no_docstring, "'no_docstring' needs a docstring"),
        (no_type, "parameter 'a' needs a type"),
        (no_line, "parameter 'a' needs a type and a line under 'Args:'"),
        (many, "'a' must be passable by name"),
        (unknown_type, "Nowhere"),
    ]
    assert not_refused(lambda method: MethodTool(method, ToolOptions()), rows) == []
    assert "no JSON schema" in refusal(MethodTool, strange, ToolOptions())


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
    names = [(name, f"tool name {name!r}") for name in (" ", "1st", "a b", "é", "a" * 65, "-a")]
    assert not_refused(lambda name: MethodTool(Twice.a, ToolOptions(name=name)), names) == []
    assert MethodTool(Twice.a, ToolOptions(name="a" * 64)).name == "a" * 64


# Results.


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


def test_long_results_are_cut_at_the_limit_with_a_note():
    for limit in (0, 10, 60):
        assert len(bounded("x" * 10_000, limit)) <= limit
    for limit in (100, 101, 1_000, MAX_RESULT_CHARS):
        text = bounded("x" * 10_000, limit)
        count = text.count("x")
        assert text == "x" * count + f"\n[cut: 10000 characters, of which the first {count} are shown]"
        assert limit - 16 < len(text) <= limit
        assert bounded("x" * limit, limit) == "x" * limit
    assert "[cut: 101 characters" in bounded("x" * 101, 100)
    assert [TOOLS.get(name).max_chars for name in ("store", "query")] == [100, MAX_RESULT_CHARS]
    assert MAX_RESULT_CHARS == 8_000
