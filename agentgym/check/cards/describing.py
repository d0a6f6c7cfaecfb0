"""Read the description and the arguments of an environment from its class."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import docstring_parser

from agentgym.core.engine.authoring import Authoring
from agentgym.core.env import Env

_SECTION = re.compile(r"^([A-Z][A-Za-z ]*): +(.*(?:\n +.*)*)", re.M)


def summary_of(kind: type[Env]) -> str:
    """Return the first paragraph of a class's docstring, in one line."""
    return " ".join(_docstring(kind).partition("\n\n")[0].split())


def sections_of(kind: type[Env]) -> dict[str, str]:
    """Return the sections of a class's docstring that are one paragraph (`Task: ...`), by title."""
    return {match[1]: " ".join(match[2].split()) for match in _SECTION.finditer(_docstring(kind))}


def _docstring(kind: type) -> str:
    return inspect.cleandoc(vars(kind).get("__doc__") or "")


@dataclass(frozen=True)
class Argument:
    """An argument of a constructor."""

    name: str
    default: str
    """As a Python literal; empty for `None` and for required arguments."""
    meaning: str


def arguments_of(kind: type[Env]) -> list[Argument]:
    """Return the arguments of a class and its bases, without those of `Env`."""
    bases = [base for base in kind.__mro__ if base not in Env.__mro__]
    return _arguments(bases)


def common_arguments() -> list[Argument]:
    """Return the arguments that every environment accepts."""
    return _arguments([Env, Authoring])


def _arguments(bases: list[type]) -> list[Argument]:
    meanings = {name: text for base in reversed(bases) for name, text in _described(base)}
    parameters = {name: parameter for base in reversed(bases) for name, parameter in _constructor_parameters(base)}
    names = [*dict.fromkeys([*_in_order(bases), *parameters])]
    return [Argument(name, _default(parameters.get(name)), meanings.get(name, "")) for name in names]


def _in_order(bases: list[type]) -> Iterator[str]:
    for base in bases:
        yield from (name for name, _ in _described(base))


def _described(base: type) -> Iterator[tuple[str, str]]:
    for parameter in docstring_parser.parse(_docstring(base)).params:
        if parameter.arg_name != "kwargs":
            yield parameter.arg_name, " ".join((parameter.description or "").split())


def _constructor_parameters(base: type) -> Iterator[tuple[str, inspect.Parameter]]:
    if "__init__" in vars(base):
        for name, parameter in inspect.signature(vars(base)["__init__"]).parameters.items():
            if name != "self" and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                yield name, parameter


def _default(parameter: inspect.Parameter | None) -> str:
    default: Any = None if parameter is None else parameter.default
    return "" if default is None or default is inspect.Parameter.empty else repr(default)
