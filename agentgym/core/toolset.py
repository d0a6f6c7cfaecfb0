"""Tools that a policy may call: typed, documented methods, or functions described by JSON schemas (`schema_tool`).

The JSON schema of a method comes from its signature and docstring. Pydantic validates and coerces the arguments before
the method runs; wrong arguments raise a `ToolError` with the expected form.
"""

from __future__ import annotations

import inspect
import json
import re
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any, get_type_hints

from docstring_parser import DocstringStyle, parse
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import to_jsonable_python

from agentgym.base.errors import Mistake, ToolError, UsageError
from agentgym.core.messages import ToolCall

MAX_RESULT_CHARS = 8_000
"""Tool results are cut to this many characters, unless a tool says otherwise."""

_MARK = "__agentgym_tool__"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_VALUE_KEYS = frozenset({"default", "enum", "const", "examples"})
"""Keys of a JSON schema that hold values, not schemas."""


@dataclass(frozen=True)
class ToolOptions:
    """The arguments of `@tool`."""

    name: str | None = None
    max_chars: int = MAX_RESULT_CHARS
    concurrent: bool = False


def tool(
    method: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    max_chars: int = MAX_RESULT_CHARS,
    concurrent: bool = False,
) -> Any:
    """Turn a typed, documented method into a tool. Works on plain and `async def` methods.

    Args:
        method: The method; every parameter needs a type and a line in the docstring's `Args:` section.
        name: The name that the model uses; by default the method's name.
        max_chars: Longer results are cut, with a note about the length.
        concurrent: Whether calls of this tool are independent of other calls of concurrent tools, so that adjacent ones
            in a turn run at the same time, in threads unless it is `async def`. Rewards and `finish` take effect in
            the order of the calls. Put any other side effect, or anything that depends on earlier calls, into a
            function that the tool returns: it is called without arguments in the order of the calls, and returns the
            result.
    """

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        if not inspect.isfunction(function):
            raise UsageError(f"@tool decorates plain methods, not {function!r}")
        setattr(function, _MARK, ToolOptions(name, max_chars, concurrent))
        return function

    return mark if method is None else mark(method)


class Tool(ABC):
    """A tool: its schema, argument validation and code. Not bound to an environment instance.

    Args:
        name: The name that the model uses.
        description: Description for the model.
        parameters: JSON schema of the arguments, of type `object`.
        options: The options of `@tool`.
        is_async: Whether the result must be awaited.
    """

    def __init__(
        self, name: str, description: str, parameters: dict[str, Any], options: ToolOptions, *, is_async: bool
    ):
        if not _NAME.fullmatch(name):
            raise UsageError(f"tool name {name!r} must be up to 64 of A-Z a-z 0-9 _ . - and not begin with a digit")
        self.name, self.description, self.parameters = name, description, parameters
        self.max_chars, self.concurrent, self.is_async = options.max_chars, options.concurrent, is_async

    @abstractmethod
    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return validated arguments to pass by name. Raises `ToolError` stating what was expected."""

    @abstractmethod
    def bound_to(self, env: Any) -> Callable[..., Any]:
        """Return the callable for an environment. It takes validated arguments by name."""

    @property
    def schema(self) -> dict[str, Any]:
        """A new copy of the tool's schema, in the format of chat templates and APIs."""
        parameters = json.loads(json.dumps(self.parameters))
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }

    @cached_property
    def usage(self) -> str:
        """The signature in one line: `query(sql: string, limit: integer = 10)`."""
        required = set(self.parameters.get("required", ()))
        parts = []
        for name, schema in self.parameters.get("properties", {}).items():
            default = f" = {json.dumps(schema['default'])}" if "default" in schema else " (optional)"
            parts.append(f"{name}: {schema_kind(schema)}{'' if name in required else default}")
        return f"{self.name}({', '.join(parts)})"


class MethodTool(Tool):
    """A `@tool` method of an environment class. Its schema comes from the signature and the docstring."""

    def __init__(self, method: Callable[..., Any], options: ToolOptions):
        self.method, self._options = method, options
        name = options.name or method.__name__
        try:
            self._parameters, description = _arguments_model(method, name)
            parameters = _without_titles(self._parameters.model_json_schema())
        except (NameError, PydanticUserError) as error:
            raise UsageError(f"tool {name!r}: a parameter's type has no JSON schema: {error}") from error
        self._passed = {name: field.alias or name for name, field in self._parameters.model_fields.items()}
        super().__init__(name, description, parameters, options, is_async=inspect.iscoroutinefunction(method))

    def __reduce__(self) -> tuple[Any, ...]:
        # The arguments model is created dynamically, so another process cannot import it by name.
        return MethodTool, (self.method, self._options)

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return validated and coerced arguments. Raises `ToolError` stating what was expected."""
        try:
            checked = self._parameters.model_validate(dict(arguments) if isinstance(arguments, Mapping) else arguments)
        except ValidationError as error:
            mistake = _kind_of_mistake({problem["type"] for problem in error.errors(include_url=False)})
            raise ToolError(f"{self.name}: {_explain(error)} Usage: {self.usage}", mistake=mistake) from None
        except RecursionError:
            problem = f"{self.name}: the arguments are nested too deeply. Usage: {self.usage}"
            raise ToolError(problem, mistake=Mistake.WRONG_ARGUMENT) from None
        return {passed: getattr(checked, name) for name, passed in self._passed.items()}

    def bound_to(self, env: Any) -> Callable[..., Any]:
        """Return the method bound to an environment."""
        return getattr(env, self.method.__name__)


class Toolset:
    """An ordered collection of tools, by name."""

    def __init__(self, tools: Iterable[Tool]):
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise UsageError(f"two tools are called {tool.name!r}; give one of them another name")
            self._tools[tool.name] = tool

    @classmethod
    def of(cls, owner: type) -> Toolset:
        """Collect the `@tool` methods of a class, in order of definition, bases first.

        An override takes the position of the original; without `@tool`, it is no longer a tool.
        """
        tools: dict[str, Tool] = {}
        for base in reversed(owner.__mro__):
            for attribute, value in vars(base).items():
                if isinstance(options := getattr(value, _MARK, None), ToolOptions):
                    if not inspect.isfunction(value):
                        raise UsageError(f"tool {attribute!r} of {base.__name__} must be a plain method")
                    tools[attribute] = MethodTool(value, options)
                elif attribute in tools:
                    del tools[attribute]
        return cls(tools.values())

    def only(self, *names: str) -> Toolset:
        """Return a toolset of the named tools, in this order. Raises `UsageError` for an unknown name."""
        if unknown := [name for name in names if name not in self._tools]:
            raise UsageError(f"there is no tool {unknown[0]!r}; there are: {', '.join(self._tools)}")
        return Toolset(self._tools[name] for name in names)

    def plus(self, *more: Tool) -> Toolset:
        """Return a toolset with additional tools. Raises `UsageError` if two have the same name."""
        return Toolset((*self, *more))

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tools."""
        return tuple(self._tools)

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """A new copy of all tools' schemas."""
        return json.loads(self._schemas_text)

    @cached_property
    def _schemas_text(self) -> str:
        return json.dumps([tool.schema for tool in self])

    def get(self, name: str) -> Tool:
        """Return a tool by name. Raises `ToolError` that lists the known tools."""
        known_tool = self._tools.get(name)
        if known_tool is None:
            close = get_close_matches(str(name)[:100], self._tools, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            hint_of_tools = f"Tools: {', '.join(self._tools)}." if self._tools else "There are none; write text."
            problem = f"There is no tool {str(name)[:100]!r}.{hint} {hint_of_tools}"
            raise ToolError(problem, mistake=Mistake.UNKNOWN_TOOL)
        return known_tool

    def check(self, call: ToolCall) -> dict[str, Any]:
        """Return the validated arguments of a call. Raises `ToolError` for an unknown tool or wrong arguments."""
        return self.get(call.name).check(call.arguments)


def schema_kind(schema: Mapping[str, Any]) -> str:
    """Return a short name for the type that a JSON schema describes."""
    if "enum" in schema:
        return "|".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if options := schema.get("anyOf"):
        return "|".join(schema_kind(option) for option in options)
    if schema.get("type") == "array" and "items" in schema:
        return f"list of {schema_kind(schema['items'])}"
    return str(schema.get("type") or ("object" if "$ref" in schema else "any"))


def bounded(value: Any, max_chars: int) -> str:
    """Return a tool's result as text of at most `max_chars` characters, with a note if it was cut."""
    text = _as_text(value)
    if len(text) > max_chars:
        note = f"\n[cut: {len(text)} characters, of which the first {{head}} are shown]"
        head = max(0, max_chars - len(note) - 8)
        text = (text[:head] + note.format(head=head))[:max_chars]
    # Lone surrogates (e.g. from file names that are not UTF-8) would break the encoding of the message.
    return text.encode("utf-8", "replace").decode("utf-8")


def _as_text(value: Any) -> str:
    if value is None:
        return "done"
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    try:
        return json.dumps(to_jsonable_python(value, fallback=str), ensure_ascii=False)
    except (ValueError, RecursionError):  # nested bytes that are not text, or a structure that contains itself
        return repr(value)


def _arguments_model(method: Callable[..., Any], name: str) -> tuple[type[BaseModel], str]:
    doc = parse(inspect.getdoc(method) or "", style=DocstringStyle.GOOGLE)
    if not doc.short_description:
        raise UsageError(f"tool {name!r} needs a docstring: the model reads it to know what the tool does")
    described = {parameter.arg_name: parameter.description for parameter in doc.params}
    hints = get_type_hints(method, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise UsageError(f"tool {name!r}: parameter {parameter.name!r} must be passable by name")
        if parameter.name not in hints or not described.get(parameter.name):
            raise UsageError(f"tool {name!r}: parameter {parameter.name!r} needs a type and a line under 'Args:'")
        default = ... if parameter.default is parameter.empty else parameter.default
        # The alias keeps parameters such as `schema` or `copy` from shadowing pydantic's own attributes.
        field = Field(default, description=described[parameter.name], alias=parameter.name)
        fields[f"argument_{parameter.name}"] = (hints[parameter.name], field)
    config = ConfigDict(extra="forbid", coerce_numbers_to_str=True, arbitrary_types_allowed=True)
    model = create_model(f"{name}_arguments", __config__=config, **fields)
    description = "\n\n".join(part for part in (doc.short_description, doc.long_description) if part)
    return model, description


def _without_titles(schema: Any) -> Any:
    """Drop pydantic's titles, which only cost tokens. A property named `title` stays."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    shortened = {key: value for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
    if isinstance(properties := shortened.get("properties"), dict):
        shortened["properties"] = {name: _without_titles(part) for name, part in properties.items()}
    as_they_are = _VALUE_KEYS | {"properties"}
    return {key: value if key in as_they_are else _without_titles(value) for key, value in shortened.items()}


def _kind_of_mistake(problems: Set[str]) -> Mistake:
    """Return the kind of mistake, given the types of pydantic's validation errors."""
    if "extra_forbidden" in problems:
        return Mistake.UNKNOWN_ARGUMENT
    return Mistake.MISSING_ARGUMENT if "missing" in problems else Mistake.WRONG_ARGUMENT


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def _explain(error: ValidationError) -> str:
    """Describe each problem with the arguments in one sentence."""
    problems = []
    for problem in error.errors(include_url=False)[:5]:
        where = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "missing":
            problems.append(f"argument {where!r} is missing.")
        elif problem["type"] == "extra_forbidden":
            problems.append(f"there is no argument {where[:100]!r}.")
        elif not where:
            problems.append("the arguments must be an object.")
        else:
            received = _SHORT.repr(problem["input"])
            problems.append(f"argument {where!r}: {problem['msg']}, got {received}.")
    return " ".join(problems)
