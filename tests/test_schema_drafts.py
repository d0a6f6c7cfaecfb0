"""Tools with schemas of older drafts, or with unusual ones, are read by all as those of today."""

from __future__ import annotations

import re
from typing import Any

import pytest
from jsonschema import Draft4Validator, Draft7Validator, Draft202012Validator

from agentgym import Env, Task, TaskList, ToolCall, tool
from agentgym.dialects import DIALECTS, get_dialect
from agentgym.engine.spaces import ActionSpace
from agentgym.errors import ToolError
from agentgym.messages import assistant, text_of
from agentgym.schema_drafts import modern
from agentgym.schema_tool import SchemaTool
from agentgym.toolset import Toolset

PAIR = {"type": "array", "items": [{"type": "integer"}, {"type": "string"}], "additionalItems": False}
ABOVE = {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False}
VALUES = [0, 1, 9, 10, "x", [], [1], [1, "x"], ["x", 1], [1, "x", 2], None, {"a": [2]}, {"a": ["x"]}]


@pytest.mark.parametrize(
    ("kind", "old"),
    [
        (Draft7Validator, PAIR),
        (Draft7Validator, {"properties": {"a": PAIR}}),
        (Draft7Validator, {"anyOf": [PAIR, {"const": {"items": [1]}}]}),
        (Draft7Validator, {"$ref": "#/definitions/pair", "definitions": {"pair": PAIR}}),
        (Draft7Validator, {"properties": {"a": False}}),
        (Draft7Validator, {"items": [True]}),
        (Draft4Validator, ABOVE),
        (Draft4Validator, {"not": ABOVE}),
        (Draft4Validator, {"exclusiveMinimum": True}),
    ],
)
def test_a_schema_of_an_older_draft_allows_the_same(kind: Any, old: dict[str, Any]):
    new = modern(old)
    Draft202012Validator.check_schema(new)
    for value in VALUES:
        assert Draft202012Validator(new).is_valid(value) == kind(old).is_valid(value)


def test_values_in_a_schema_are_left_alone():
    schema = {
        "enum": [{"items": [1]}],
        "default": {"exclusiveMinimum": True},
        "properties": {"items": {"const": [True]}},
    }
    assert modern(schema) == schema


@pytest.mark.parametrize("part", [True, False, PAIR, ABOVE, {}, {"$ref": "#"}], ids=str)
def test_every_reader_of_schemas_reads_them(part: Any):
    parameters = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"a": part}}
    made = SchemaTool({"name": "odd", "description": "Be odd.", "parameters": parameters}, str)
    tools = Toolset([made])
    assert "odd(a: " in made.usage
    for name in DIALECTS:
        dialect = get_dialect(name)
        assert isinstance(dialect.instructions(tools, 1), str)
        assert ActionSpace(tools, dialect, seed=0).sample()
    with pytest.raises(ToolError, match=re.escape("Usage: odd(")):
        made.check({"a": {"a": object}})


class Named(Env):
    """Tools whose arguments have the names of our own."""

    @classmethod
    def default_tasks(cls) -> TaskList:
        return TaskList([Task("named/0", "train", "Go on.")])

    def __init__(self, **kwargs: Any):
        names = ("self", "function", "name", "arguments", "args", "kwargs", "env", "tool", "class")
        parameters = {"properties": {name: {"type": "string"} for name in names}}
        made = SchemaTool({"name": "pass", "description": "Take all.", "parameters": parameters}, sorted)
        self.tools = Toolset([made, *Toolset.of(type(self))])
        super().__init__(**kwargs)

    @tool
    def run(self, function: str, args: str) -> str:
        """Run.

        Args:
            function: What.
            args: With what.
        """
        return f"{function}({args})"


def test_arguments_of_tools_may_have_any_name():
    env = Named(dialect="native")
    env.reset(seed=0)
    for name in env.tools.get("pass").parameters["properties"]:
        assert text_of(env.step(assistant("", [ToolCall("pass", {name: "x"})])).observation[-1]) == f'["{name}"]'
    assert text_of(env.step(assistant("", [ToolCall("run", {"function": "f", "args": "x"})])).observation[-1]) == "f(x)"


def test_who_calls_a_tool_where_there_are_none_is_told_so():
    with pytest.raises(ToolError, match="There are none; write text"):
        Toolset(()).get("fly")
