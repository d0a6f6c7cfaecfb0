"""Tools described by JSON schemas, including older drafts, behave like other tools."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft4Validator, Draft7Validator, Draft202012Validator

from agentgym import Env, Reason, SchemaTool, Task, TaskList, ToolCall, schema_tools
from agentgym.base.errors import ToolError
from agentgym.core.messages import assistant, text_of
from agentgym.core.schema_tool import modern
from tests.refusals import not_refused, refusal

PAIR = {"type": "array", "items": [{"type": "integer"}, {"type": "string"}], "additionalItems": False}
ABOVE = {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False}
VALUES = [0, 1, 9, 10, "x", [], [1], [1, "x"], ["x", 1], [1, "x", 2], None, {"a": [2]}, {"a": ["x"]}]
OLD: list[tuple[Any, dict[str, Any]]] = [
    (Draft7Validator, PAIR),
    (Draft7Validator, {"properties": {"a": PAIR}}),
    (Draft7Validator, {"anyOf": [PAIR, {"const": {"items": [1]}}]}),
    (Draft7Validator, {"$ref": "#/definitions/pair", "definitions": {"pair": PAIR}}),
    (Draft7Validator, {"properties": {"a": False}}),
    (Draft7Validator, {"items": [True]}),
    (Draft4Validator, ABOVE),
    (Draft4Validator, {"not": ABOVE}),
    (Draft4Validator, {"exclusiveMinimum": True}),
]
BOOK = {
    "name": "book",
    "description": "Book a table.",
    "inputSchema": {
        "type": "object",
        "properties": {"day": {"type": "integer", "minimum": 1}, "from": {"type": ["string", "null"]}},
        "required": ["day"],
        "additionalProperties": False,
    },
}


def test_a_schema_of_an_older_draft_allows_the_same_values():
    wrong: list[Any] = []
    for kind, old in OLD:
        new = modern(old)
        Draft202012Validator.check_schema(new)
        valid = Draft202012Validator(new).is_valid
        wrong += [(old, value) for value in VALUES if valid(value) != kind(old).is_valid(value)]
    assert wrong == []
    values = {"items": {"const": [True]}}
    schema = {"enum": [{"items": [1]}], "default": {"exclusiveMinimum": True}, "properties": values}
    assert modern(schema) == schema, "values in a schema are left alone"


def test_refused_arguments_are_explained_to_the_model():
    rows: list[tuple[Any, str]] = [
        ({}, "'day' is missing"),
        ({}, "Usage: book(day: integer, from: "),
        ({"day": "3"}, "'3' is not of type 'integer'"),
        ({"day": 0}, "less than the minimum of 1"),
        ({"day": 1, "x": 2}, "there is no argument 'x'"),
        ({"day": 1, "from": [1]}, "argument 'from'"),
        (5, "must be an object"),
        ({"day": {1}}, "not a JSON object"),
    ]
    assert not_refused(SchemaTool(BOOK, dict).check, rows, ToolError) == []


def test_invalid_tool_schemas_are_refused_and_references_never_fetched():
    rows: list[tuple[dict[str, Any], str]] = [
        ({}, "'name'"),
        ({"name": "a"}, "'description'"),
        ({"name": "a b", "description": "x"}, "tool name"),
        ({"name": "a", "description": "x", "parameters": {"type": "array"}}, "type 'object'"),
        ({"name": "a", "description": "x", "parameters": {"type": "nonsense"}}, "not a valid JSON Schema"),
        ({"name": "a", "description": "x", "parameters": {"x": {1}}}, "not JSON"),
    ]
    assert not_refused(lambda schema: SchemaTool(schema, dict), rows) == []
    away = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/x.json"}}}
    far = SchemaTool({"name": "a", "description": "x", "parameters": away}, dict)
    assert "refers to what is not in it" in refusal(lambda: far.check({"a": 1}))


class Booking(Env):
    """Tools that each task brings along."""

    @classmethod
    def default_tasks(cls) -> TaskList:
        return TaskList([Task("book/0", "train", "Book.")])

    def start(self, task: Task) -> None:
        async def run(name: str, arguments: dict[str, Any]) -> Any:
            if arguments["day"] > 31:
                raise ToolError("There is no such day.")
            self.finish(Reason.ANSWERED)
            return {"tool": name, **arguments}

        wrapped = {"type": "function", "function": {**BOOK, "name": "b"}}
        self.tools = self.tools.plus(*schema_tools([BOOK, wrapped], run))


def test_an_environment_can_bring_tools_from_schemas():
    env = Booking()
    _, info = env.reset(seed=0)
    assert [entry["function"]["name"] for entry in info["tools"]] == ["book", "b"]
    assert info["tools"][0]["function"]["parameters"] == BOOK["inputSchema"]
    assert "no such day" in text_of(env.step(assistant("", [ToolCall("book", {"day": 40})])).observation[0])
    assert "'day' is missing" in text_of(env.step(assistant("", [ToolCall("book", {})])).observation[0])
    result = env.step(assistant("", [ToolCall("b", {"day": 3, "from": None})]))
    assert '"tool": "b", "day": 3, "from": null' in text_of(result.observation[0])
    assert result.terminated
