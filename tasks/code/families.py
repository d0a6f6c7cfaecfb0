"""Task families: what they draw, and how they register.

A family draws the parameters of a `Program` (value and predict tasks) or a `Function` (function and fix tasks). It
neither runs code nor knows about splits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from textwrap import dedent
from typing import Any, TypeVar

from agentgym import procedural
from agentgym.procedural import Families

Arguments = tuple[Any, ...]


class TaskKind(StrEnum):
    """The kind of work that a task asks for."""

    VALUE = "value"
    """Compute a value and submit it."""
    FUNCTION = "function"
    """Write a function."""
    FIX = "fix"
    """Repair a function that has a bug."""
    PREDICT = "predict"
    """Submit the output of a given program."""


class Area(StrEnum):
    """The subject of a task."""

    NUMERIC = "numeric"
    STRINGS = "strings"
    LISTS = "lists"
    PARSING = "parsing"
    SIMULATION = "simulation"
    GRAPHS = "graphs"
    DATES = "dates"
    ALGORITHMS = "algorithms"


@dataclass(frozen=True)
class Program:
    """A program that prints one Python literal.

    Args:
        code: The program. It prints once and needs only the standard library.
        words: The values that the phrasings refer to.
        part: The part of the code that two tasks with the same problem share; all of it if empty.
        needs_code: Whether a good reader needs to run code.
    """

    code: str
    words: Mapping[str, Any] = field(default_factory=dict)
    part: str = ""
    needs_code: bool = True

    @property
    def key(self) -> str:
        """The key that decides the split of its tasks."""
        return self.part or self.code


@dataclass(frozen=True)
class Function:
    """A correct function, with arguments to call it with.

    Args:
        source: The whole source. It has no `while`, no recursion and no loop over a growing list, so that no small
            edit of it can run forever. It never changes its arguments.
        words: The values that the phrasings refer to.
        draw_args: Draws arguments.
        edges: Arguments that every trial includes.
    """

    source: str
    words: Mapping[str, Any]
    draw_args: Callable[[Random], Arguments]
    edges: tuple[Arguments, ...]

    @property
    def key(self) -> str:
        """The key that decides the split of its tasks."""
        return self.source

    @property
    def signature(self) -> str:
        """The `def` line of the function, which follows its helpers."""
        return [line for line in self.source.splitlines() if line.startswith("def ")][-1]

    @property
    def entry_point(self) -> str:
        """Name of the function."""
        return self.signature[4:].partition("(")[0]


CodeDraft = Program | Function


@dataclass(frozen=True)
class CodeFamily(procedural.Family[Random, CodeDraft]):
    """A kind of programming task."""

    kind: TaskKind
    area: Area

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of all tasks of this family."""
        return (self.kind.value, self.name, self.area.value)


FAMILIES: Families[CodeFamily] = Families(CodeFamily)
"""Every family by name."""

Draw = TypeVar("Draw", bound=Callable[[Random], CodeDraft])


def register(
    kind: TaskKind, area: Area, level: int, *phrasings: str, held_out: bool = False, name: str | None = None
) -> Callable[[Draw], Draw]:
    """Return a decorator that registers a function that draws, by default under the function's name."""
    return FAMILIES.register(level, *phrasings, name=name, kind=kind, area=area, held_out=held_out)


def value(area: Area, level: int, *phrasings: str, held_out: bool = False) -> Callable[[Draw], Draw]:
    """Return a decorator that registers a family of value tasks."""
    return register(TaskKind.VALUE, area, level, *phrasings, held_out=held_out)


def function(area: Area, level: int, *phrasings: str, held_out: bool = False) -> Callable[[Draw], Draw]:
    """Return a decorator that registers a family of function tasks."""
    return register(TaskKind.FUNCTION, area, level, *phrasings, held_out=held_out)


def predict(area: Area, level: int, *phrasings: str, held_out: bool = False) -> Callable[[Draw], Draw]:
    """Return a decorator that registers a family of predict tasks; the program follows the phrasing in the prompt."""
    return register(TaskKind.PREDICT, area, level, *phrasings, held_out=held_out)


def block(text: str) -> str:
    """Return source from an indented string literal, without the lines that an empty part left blank."""
    lines = [line for line in text.split("\n") if line.strip() or not line]
    return dedent("\n".join(lines)).strip("\n") + "\n"
