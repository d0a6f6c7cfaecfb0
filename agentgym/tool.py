"""Tools: typed, documented methods that a policy may call. The JSON schema comes from the signature and docstring.

Arguments are validated and coerced by pydantic before the method runs; what is wrong with them is a `ToolError` that
tells the model what was expected.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any, TypeVar, get_type_hints

from docstring_parser import DocstringStyle, parse
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import to_jsonable_python

from agentgym.errors import ToolError, UsageError
from agentgym.messages import ToolCall

MAX_RESULT_CHARS = 8_000
"""Tool results are cut to this many characters, unless a tool says otherwise."""

_MARK = "__agentgym_tool__"
_Method = TypeVar("_Method", bound=Callable[..., Any])


@dataclass(frozen=True)
class ToolOptions:
    """What `@tool` was given."""

    name: str | None = None
    max_chars: int = MAX_RESULT_CHARS


def tool(method: _Method | None = None, *, name: str | None = None, max_chars: int = MAX_RESULT_CHARS) -> Any:
    """Make a typed, documented method a tool. Works on plain and on `async def` methods.

    Args:
        method: The method; every parameter needs a type and a line in the docstring's `Args:` section.
        name: What the model calls it; the method's own name by default.
        max_chars: Results longer than this are cut, with a note of how much.
    """

    def mark(function: _Method) -> _Method:
        setattr(function, _MARK, ToolOptions(name, max_chars))
        return function

    return mark if method is None else mark(method)


class Tool:
    """A tool of a class: its schema, and how to check arguments for it. Knows no instance; `bind` gives it one."""

    def __init__(self, method: Callable[..., Any], options: ToolOptions):
        self.method = method
        self.name = options.name or method.__name__
        self.max_chars = options.max_chars
        self.is_async = inspect.iscoroutinefunction(method)
        self._parameters, self.description = _arguments_model(method, self.name)

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """JSON schema of the arguments."""
        schema = self._parameters.model_json_schema()
        return _without_titles(schema)

    @property
    def schema(self) -> dict[str, Any]:
        """The tool in the form that chat templates and APIs take, as new data."""
        parameters = json.loads(json.dumps(self.parameters))
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return validated and coerced arguments, ready to pass. Raises `ToolError` saying what was expected."""
        try:
            checked = self._parameters.model_validate(arguments)
        except ValidationError as error:
            raise ToolError(f"{self.name}: {_explain(error)} Usage: {self.usage}") from None
        except RecursionError:
            raise ToolError(f"{self.name}: the arguments are nested too deeply. Usage: {self.usage}") from None
        return {field.alias or name: getattr(checked, name) for name, field in type(checked).model_fields.items()}

    @cached_property
    def usage(self) -> str:
        """The call in one line: `query(sql: string, limit: integer = 10)`."""
        required = set(self.parameters.get("required", ()))
        parts = []
        for name, schema in self.parameters.get("properties", {}).items():
            kind = schema.get("type") or "/".join(str(option.get("type", "any")) for option in schema.get("anyOf", []))
            default = "" if name in required else f" = {json.dumps(schema.get('default'))}"
            parts.append(f"{name}: {kind or 'any'}{default}")
        return f"{self.name}({', '.join(parts)})"


class Toolset:
    """The tools of one environment class, by name."""

    def __init__(self, tools: Iterable[Tool]):
        self._tools = {tool.name: tool for tool in tools}

    @classmethod
    def of(cls, owner: type) -> Toolset:
        """Collect the `@tool` methods of a class, in order of definition, bases first."""
        found: dict[str, Tool] = {}
        for base in reversed(owner.__mro__):
            for attribute, value in vars(base).items():
                if isinstance(options := getattr(value, _MARK, None), ToolOptions):
                    found[attribute] = Tool(value, options)
                elif attribute in found:
                    del found[attribute]
        return cls(found.values())

    def __iter__(self):
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
        """Schemas of all tools, as new data."""
        return [tool.schema for tool in self]

    def get(self, name: str) -> Tool:
        """Return a tool by name. Raises `ToolError` naming the tools there are."""
        found = self._tools.get(name)
        if found is None:
            close = get_close_matches(str(name)[:100], self._tools, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ToolError(f"There is no tool {str(name)[:100]!r}.{hint} Tools: {', '.join(self._tools)}.")
        return found

    def check(self, call: ToolCall) -> dict[str, Any]:
        """Return the checked arguments of a call. Raises `ToolError` for an unknown tool or wrong arguments."""
        return self.get(call.name).check(call.arguments)


def bounded(value: Any, max_chars: int) -> str:
    """Return a tool's result as text of at most `max_chars` characters, saying what was cut."""
    if value is None:
        text = "done"
    elif isinstance(value, str):
        text = value
    else:
        text = json.dumps(to_jsonable_python(value, fallback=str), ensure_ascii=False)
    if len(text) <= max_chars:
        return text
    note = f"\n[cut: {len(text)} characters, of which the first {{kept}} are shown]"
    kept = max(0, max_chars - len(note) - 8)
    return text[:kept] + note.format(kept=kept)


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
    """Drop pydantic's titles: they only cost tokens. A property that is itself called `title` stays."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
    if isinstance(properties := kept.get("properties"), dict):
        kept["properties"] = {name: _without_titles(part) for name, part in properties.items()}
    return {key: value if key == "properties" else _without_titles(value) for key, value in kept.items()}


def _explain(error: ValidationError) -> str:
    """Say in a sentence per problem what was wrong with the arguments."""
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
            given = repr(problem["input"])
            given = given if len(given) <= 80 else given[:77] + "..."
            problems.append(f"argument {where!r}: {problem['msg']}, got {given}.")
    return " ".join(problems)
