"""Malformed turns: each has its own instructive error, and the episode continues."""

from __future__ import annotations

import re

import pytest

from agentgym.core.dialects import get_dialect
from agentgym.core.dialects.base import MAX_ACTION_CHARS
from agentgym.core.dialects.text import text_parameters
from agentgym.core.env import Env
from agentgym.core.messages import text_of
from agentgym.core.schema_tool import schema_tools
from agentgym.core.task import Task, TaskList
from agentgym.core.toolset import Toolset, tool

OPEN, CLOSE = "<tool_call>", "</tool_call>"
HERMES = {
    "bad JSON": (OPEN + '{"name": "add", "arguments": {"a": 1 "b": 2}}' + CLOSE, 'character 38, near .*1 "b"'),
    "line break in a string": (OPEN + '{"name": "say", "arguments": {"text": "a\nb"}}' + CLOSE, r"line break as \\n"),
    "not an object": (OPEN + '["say"]' + CLOSE, "must be a JSON object .* not a list"),
    "no name": (OPEN + '{"arguments": {}}' + CLOSE, 'no "name"'),
    "no arguments": (OPEN + '{"name": "say", "parameters": {}}' + CLOSE, "no \"arguments\", only 'name', 'parameters'"),
    "arguments null": (OPEN + '{"name": "say", "arguments": null}' + CLOSE, '"arguments" must be an object, not null'),
    "arguments as bad text": (OPEN + '{"name": "say", "arguments": "{a"}' + CLOSE, '"arguments" is a string'),
    "empty call": (OPEN + " " + CLOSE, "The tool call is empty"),
    "two objects": (OPEN + '{"name": "say", "arguments": {}} {}' + CLOSE, "Only one JSON object"),
    "duplicate key": (OPEN + '{"name": "a", "name": "b", "arguments": {}}' + CLOSE, "'name' appears twice"),
    "NaN": (OPEN + '{"name": "add", "arguments": {"a": NaN}}' + CLOSE, "NaN is not allowed"),
    "huge number": (OPEN + '{"name": "add", "arguments": {"a": ' + "1" * 5000 + "}}" + CLOSE, "too many digits"),
    "too deep": (OPEN + "[" * 90_000 + "]" * 90_000 + CLOSE, "nested more than"),
    "lone surrogate in JSON": (OPEN + '{"name": "say", "arguments": {"text": "\\ud83d"}}' + CLOSE, "is not text"),
    "unclosed": (OPEN + '{"name": "say", "arguments": {}}', "never closed"),
    "closed only": ("Then </tool_call>", "stands without <tool_call>"),
    "text after": (
        OPEN + '{"name": "say", "arguments": {}}' + CLOSE + "\nSo",
        "text after the call: .*End your message",
    ),
    "nested": (OPEN + '{"name": ' + OPEN + "{}" + CLOSE + "}" + CLOSE, "starts inside another"),
    "unclosed reasoning": ("<think> Let me see", "<think> is never closed"),
}
TAGS = {
    "bad JSON": ('<add>{"a": 1,}</add>', "arguments of 'add' must be a JSON object, but .*at character"),
    "more than JSON": ('<add>{"a": 1} then</add>', "text after the JSON object"),
    "unclosed": ("<say>hello", "<say> is never closed. End the call with </say>"),
    "closed only": ("hello</say>", "</say> stands without <say>"),
    "nested": ("<say>a <say>b</say></say>", "<say> stands inside <say>"),
    "crossed": ("<say>a</add>", "</add> stands inside <say>"),
    "text after": ("<say>a</say> and", "text after the call: .*End your message"),
}
FENCED = {
    "bad JSON": ("```add\n{a: 1}\n```", "arguments of 'add' must be a JSON object, but .*at character 2"),
    "not an object": ("```add\n3\n```", "expected, not a number"),
    "unclosed": ("```say\nhello", "'```say' is never closed"),
    "unclosed by too short a fence": ("````say\nhello\n```", "is never closed"),
    "nested": ("```say\n```add\n```\n```", "'```add' starts inside '```say'"),
    "text after": ("```say\na\n```\nOutput: a", "text after the block: .*End your message"),
}
COMPACT = {
    "bad JSON": ("@add {a: 1}", r'Write @add {"a":integer,"b":integer}, but this is not valid JSON.*character 2'),
    "not an object": ("@add 3", "must be a JSON object, not a number"),
    "unclosed": ('@add {"a": 1, "b', "is not valid JSON"),
    "text after": ('@add {"a": 1, "b": 2} so', "text after the call: .*End your message"),
    "text after no arguments": ("@add\nso", "is not valid JSON"),
    "no space": ("@say(hello)", "After '@say' comes .*Write a space"),
}
ANY = {
    "empty": ("", "empty"),
    "too long": ("x" * (MAX_ACTION_CHARS + 1), "200001 characters; at most 200000"),
    "surrogate": ("a\ud800b", r"The character '\\ud800' at 2 is not text; leave it out\."),
}
OWN = {"hermes": HERMES, "tags": TAGS, "fenced": FENCED, "compact": COMPACT}


class Adding(Env):
    """Add numbers."""

    @classmethod
    def default_tasks(cls) -> TaskList:
        return TaskList([Task(id="1", split="train", prompt="Add 1 and 2.")])

    @tool
    def add(self, a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: A number.
            b: Another.
        """
        return a + b

    @tool
    def say(self, text: str) -> str:
        """Say something.

        Args:
            text: What.
        """
        return text


def started(dialect: str) -> Env:
    env = Adding(dialect=dialect)
    env.reset(seed=0)
    return env


@pytest.mark.parametrize("dialect", OWN)
def test_each_malformed_turn_has_its_own_error_and_the_episode_continues(dialect: str):
    wrong: list[str] = []
    for name, (text, pattern) in (OWN[dialect] | ANY).items():
        env = started(dialect)
        parsed = env.dialect.parse(text, env.tools)
        observation, _, terminated, truncated, _ = env.step(text)
        answer = text_of(observation[0])
        roles = [message.get("role") for message in observation]
        if (parsed.calls, parsed.unclosed) != ((), name.startswith("unclosed")):
            wrong.append(f"{name}: {parsed}")
        if (roles, terminated, truncated) != (["user"], False, False):
            wrong.append(f"{name}: {roles}, {terminated=}, {truncated=}")
        if not re.search(pattern, answer) or len(answer) >= 400:
            wrong.append(f"{name}: {answer}")
    assert wrong == []


def test_a_numbered_entity_is_a_character_only_if_that_exists():
    no_characters = [0, 0xD800, 0xDFFF, 0x110000]
    for code in [1, 0xD7FF, 0xE000, 0x10FFFF, *no_characters]:
        [call] = get_dialect("tags").parse(f"<say>x&#{code};y</say>", Adding.tools).calls
        text = f"x&#{code};y" if code in no_characters else f"x{chr(code)}y"
        assert call.arguments == {"text": text}, code


def test_only_a_tool_with_a_single_required_string_takes_bare_text():
    string, strings = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
    shapes = {
        "say": ({"text": string}, ["text"]),
        "hint": ({"text": string}, []),
        "tell": ({"who": string, "text": string}, ["who", "text"]),
        "many": ({"texts": strings}, ["texts"]),
    }
    schemas = [
        {"name": name, "description": "?", "parameters": {"properties": properties, "required": required}}
        for name, (properties, required) in shapes.items()
    ]
    assert text_parameters(Toolset(schema_tools(schemas, print))) == {"say": "text"}
