"""Tools described by JSON schemas, as in MCP servers, OpenAPI documents and function-calling data sets.

Arguments are validated by `jsonschema` and passed on unchanged; nothing is coerced or filled in. Schemas of older
drafts are read too (`schema_drafts`).
"""

from __future__ import annotations

import inspect
import json
import reprlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from referencing import Registry
from referencing.exceptions import Unresolvable

from agentgym.base.errors import Mistake, ToolError, UsageError
from agentgym.core.toolset import MAX_RESULT_CHARS, Tool, ToolOptions

_ONE = frozenset({"items", "additionalItems", "contains", "not", "if", "then", "else", "propertyNames"})
_SEVERAL = frozenset({"anyOf", "allOf", "oneOf", "prefixItems", "items"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


def modern(schema: Any) -> Any:
    """Return an equivalent schema in draft 2020-12. Keywords that do not hold schemas are unchanged.

    Lists of `items` become `prefixItems`, an exclusive bound that is a flag becomes the bound, and inner schemas that
    are `true` or `false` become objects.
    """
    if not isinstance(schema, dict):
        return schema
    converted = {word: _inner(word, value) for word, value in schema.items() if word != "$schema"}
    if isinstance(converted.get("items"), list):
        converted["prefixItems"] = converted.pop("items")
        if "additionalItems" in converted:
            converted["items"] = converted.pop("additionalItems")
    for word, bound in _EXCLUSIVE.items():
        if isinstance(converted.get(word), bool) and converted.pop(word) and bound in converted:
            converted[word] = converted.pop(bound)
    return converted


def _inner(word: str, value: Any) -> Any:
    if word in _NAMED and isinstance(value, Mapping):
        return {name: _as_object(inner) for name, inner in value.items()}
    if word in _SEVERAL and isinstance(value, list):
        return [_as_object(inner) for inner in value]
    if word in _ONE:
        return _as_object(value)
    return modern(value) if word == "additionalProperties" else value


def _as_object(schema: Any) -> Any:
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    return modern(schema)


Handler = Callable[[dict[str, Any]], Any]
"""Runs a tool with its validated arguments; plain or `async def`. Raises `ToolError` for the model's mistakes."""

_SCHEMA_KEYS = ("parameters", "inputSchema", "input_schema")
_MAX_PROBLEMS = 3
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


class SchemaTool(Tool):
    """A tool described by a JSON schema and run by a function.

    Args:
        schema: `{"name", "description", "parameters"}`, alone or as `{"type": "function", "function": {...}}`. MCP's
            `inputSchema` counts as `parameters`.
        handler: Runs the tool.
        max_chars: Results longer than this are cut.
        concurrent: As in `@tool`.

    Raises:
        UsageError: The schema has no name or no description, or is not the JSON Schema of an object.
    """

    def __init__(
        self,
        schema: Mapping[str, Any],
        handler: Handler,
        *,
        max_chars: int = MAX_RESULT_CHARS,
        concurrent: bool = False,
    ):
        name, description, parameters = _parts(schema)
        options = ToolOptions(name, max_chars, concurrent)
        super().__init__(name, description, parameters, options, is_async=inspect.iscoroutinefunction(handler))
        # An empty registry: references to other documents are never fetched.
        self._validator = Draft202012Validator(parameters, registry=Registry())
        self._handler = handler
        self._made_of = (schema, handler, max_chars, concurrent)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, self._made_of

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of the arguments. Raises `ToolError` with the schema's requirements."""
        try:
            copied = json.loads(json.dumps(arguments))
            problems = sorted(
                self._validator.iter_errors(copied), key=lambda problem: list(map(str, problem.absolute_path))
            )
        except (TypeError, ValueError, RecursionError):
            problem = f"{self.name}: the arguments are not a JSON object. Usage: {self.usage}"
            raise ToolError(problem, mistake=Mistake.WRONG_ARGUMENT) from None
        except Unresolvable as error:
            raise UsageError(f"tool {self.name!r}: its schema refers to what is not in it: {error}") from error
        if problems:
            raise ToolError(f"{self.name}: {_explain(problems)} Usage: {self.usage}", mistake=_kind_of(problems))
        return copied

    def bound_to(self, env: Any) -> Callable[..., Any]:
        """Return the function that runs the tool; it ignores the environment."""
        return lambda **arguments: self._handler(arguments)


def schema_tools(schemas: Iterable[Mapping[str, Any]], handler: Callable[[str, dict[str, Any]], Any]) -> list[Tool]:
    """Return the tools that schemas describe. One function runs them all, given a tool's name and arguments."""

    return [SchemaTool(schema, _handler_of(handler, _parts(schema)[0])) for schema in schemas]


def _handler_of(handler: Callable[[str, dict[str, Any]], Any], name: str) -> Handler:
    """Return the function that runs one of the tools, picklable if `handler` is."""
    return partial(_run_async if inspect.iscoroutinefunction(handler) else _run, handler, name)


def _run(handler: Callable[[str, dict[str, Any]], Any], name: str, arguments: dict[str, Any]) -> Any:
    return handler(name, arguments)


async def _run_async(handler: Callable[[str, dict[str, Any]], Any], name: str, arguments: dict[str, Any]) -> Any:
    return await handler(name, arguments)


def _again(schema: Mapping[str, Any], handler: Handler, max_chars: int, concurrent: bool) -> SchemaTool:
    return SchemaTool(schema, handler, max_chars=max_chars, concurrent=concurrent)


def _parts(schema: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Return name, description and parameters of a tool."""
    function = schema.get("function", schema)
    if not isinstance(function, Mapping) or not isinstance(name := function.get("name"), str):
        raise UsageError(f"a tool's schema needs a 'name': {_SHORT.repr(schema)}")
    if not isinstance(description := function.get("description"), str) or not description.strip():
        raise UsageError(f"the schema of tool {name!r} needs a 'description': the model reads it")
    declared = next((function[key] for key in _SCHEMA_KEYS if function.get(key) is not None), {})
    try:
        parameters = modern(json.loads(json.dumps(declared)))
        Draft202012Validator.check_schema(parameters)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the parameters of tool {name!r} are not JSON: {error}") from error
    except SchemaError as error:
        raise UsageError(f"the parameters of tool {name!r} are not a valid JSON Schema: {error.message}") from error
    if not isinstance(parameters, dict) or parameters.setdefault("type", "object") != "object":
        raise UsageError(f"the parameters of tool {name!r} must be of type 'object'")
    parameters.setdefault("properties", {})
    return name, description, parameters


def _kind_of(problems: Iterable[ValidationError]) -> Mistake:
    """Return the kind of mistake for these validation errors."""
    broken = {str(problem.validator) for problem in problems}
    if "additionalProperties" in broken:
        return Mistake.UNKNOWN_ARGUMENT
    return Mistake.MISSING_ARGUMENT if "required" in broken else Mistake.WRONG_ARGUMENT


def _explain(problems: list[ValidationError]) -> str:
    """Describe each problem with the arguments in one sentence."""
    mistakes: list[str] = []
    for problem in problems[:_MAX_PROBLEMS]:
        inner = best_match(problem.context) if problem.context else None
        where = ".".join(map(str, problem.absolute_path))
        instance: Any = problem.instance
        rule: Any = problem.validator_value
        if problem.validator == "required":
            missing = next(name for name in rule if name not in instance)
            mistakes.append(f"argument {f'{where}.{missing}' if where else missing!r} is missing.")
        elif problem.validator == "additionalProperties" and rule is False and not where:
            object_schema: Any = problem.schema
            mistakes.append(
                f"there is no argument {min(set(instance) - set(object_schema.get('properties', {})))[:100]!r}."
            )
        elif not where and problem.validator == "type":
            mistakes.append("the arguments must be an object.")
        else:
            message = (inner or problem).message
            message = (
                message if len(message) < 200 else f"{_SHORT.repr(problem.instance)} is not what the schema asks for"
            )
            mistakes.append(f"argument {where!r}: {message}." if where else f"{message}.")
    return " ".join(mistakes)
