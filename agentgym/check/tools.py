"""Checks of an environment's tools: their schemas, and that calls are validated against them."""

from __future__ import annotations

from typing import Any

from agentgym.check.catalog import check
from agentgym.check.outcomes import CheckFailed, CheckSkipped, Finding
from agentgym.check.play import assistant_call, is_over, let_it_blunder, short
from agentgym.check.subject import Subject
from agentgym.core.engine.steps import StepResult
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall, text_of
from agentgym.core.toolset import Tool


@check("tool-schemas", "tools are described by valid JSON Schema, and every argument is explained")
def tool_schemas(subject: Subject) -> Finding:
    """`info["tools"]` lists every tool in a form that models and other trainers can use."""
    with subject.env() as env:
        _, info = env.reset(seed=subject.seed)
        if not len(env.tools):
            raise CheckSkipped("it has no tools")
        if [entry["function"]["name"] for entry in info["tools"]] != list(env.tools.names):
            raise CheckFailed(f"info['tools'] does not list {', '.join(env.tools.names)}")
        for entry in info["tools"]:
            _check_schema(entry["function"])
        return f"{len(env.tools)} tools"


def _check_schema(function: dict[str, Any]) -> None:
    # Imported here: every fresh interpreter of the checks imports this module, but only this function validates.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    name, parameters = function["name"], function["parameters"]
    try:
        Draft202012Validator.check_schema(parameters)
    except SchemaError as error:
        raise CheckFailed(f"tool {name!r}: its parameters are not a valid JSON Schema: {error.message}") from error
    if parameters.get("type") != "object":
        raise CheckFailed(f"tool {name!r}: its parameters must be of type 'object', not {parameters.get('type')!r}")
    if not function["description"].strip():
        raise CheckFailed(f"tool {name!r} has no description; write a docstring, the model reads it")
    for argument, schema in parameters.get("properties", {}).items():
        if not schema.get("description"):
            raise CheckFailed(f"tool {name!r}: argument {argument!r} is not explained; add a line under 'Args:'")


@check("tool-mistakes", "a missing, unknown or wrongly typed argument is reported to the model, by name")
def tool_mistakes(subject: Subject) -> Finding:
    """Calls that violate the schema are answered, and the episode continues."""
    with subject.env(**subject.long) as env:
        if not len(env.tools):
            raise CheckSkipped("it has no tools")
        cases = [case for tool in env.tools for case in _mistakes(tool)]
        let_it_blunder(env)
        over = True
        for call, word in cases:
            begins, result = over, _answer(env, subject, call, over)
            if is_over(result) and not begins:
                result = _answer(env, subject, call, True)  # enough mistakes may end an episode, a single one may not
            answer = " ".join(text_of(message) for message in result[0])
            if word not in answer:
                raise CheckFailed(f"{_call_text(call)} was answered {short(answer)}; the answer must name {word!r}")
            over = is_over(result)
            if over and env.max_turns > 1:
                raise CheckFailed(f"{_call_text(call)} ended the episode; report the mistake and let it continue")
        return f"{len(cases)} wrong calls"


def _answer(env: Env, subject: Subject, call: ToolCall, begins: bool) -> StepResult:
    """Return the answer to a wrong call, after a reset if the call `begins` an episode."""
    if begins:
        env.reset(seed=subject.seed)
    try:
        return env.step(assistant_call(call))
    except Exception as error:
        raise CheckFailed(f"{_call_text(call)} raised {type(error).__name__}: {error}") from error


def _mistakes(tool: Tool) -> list[tuple[ToolCall, str]]:
    """Return wrong calls of a tool, each with the word that the answer must contain."""
    required = tool.parameters.get("required", [])
    cases = [(ToolCall(tool.name, {"no_such_argument": 1}), "no_such_argument")]
    cases += [(ToolCall(f"{tool.name}_x"), tool.name)]
    cases += [(ToolCall(tool.name), name) for name in required[:1]]
    for name, schema in tool.parameters.get("properties", {}).items():
        if schema.get("type") in ("integer", "number", "boolean", "array", "object"):
            cases.append((ToolCall(tool.name, {name: "certainly not"}), name))
    return cases


def _call_text(call: ToolCall) -> str:
    return f"{call.name}({short(repr(dict(call.arguments)))})"


CHECKS = (tool_schemas, tool_mistakes)
