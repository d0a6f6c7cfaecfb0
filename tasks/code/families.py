"""Task families: what one is, how it is registered, and what it draws.

A family draws a `Program` (value and predict tasks) or a `Function` (function and fix tasks) with parameters that
decide its meaning, and words it in one of several ways. It neither runs anything nor knows splits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from textwrap import dedent
from typing import Any

Arguments = tuple[Any, ...]


class Kind(StrEnum):
    """What is asked for."""

    VALUE = "value"
    """Work out a value and submit it."""
    FUNCTION = "function"
    """Write a function."""
    FIX = "fix"
    """Repair a function that has a bug."""
    PREDICT = "predict"
    """Say what a program that is shown prints."""


class Area(StrEnum):
    """What a task is about."""

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
    """A program that prints one Python literal, and the words that the phrasings refer to.

    Args:
        code: The program. It needs only the standard library and prints once.
        words: What the phrasings refer to.
        part: The part of the code that makes it the same problem in two tasks; all of it if empty.
        needs_code: Whether a good reader would need to run code.
    """

    code: str
    words: Mapping[str, Any] = field(default_factory=dict)
    part: str = ""
    needs_code: bool = True

    @property
    def key(self) -> str:
        """What decides the split."""
        return self.part or self.code


@dataclass(frozen=True)
class Function:
    """A correct function, and what it is tried on.

    Args:
        source: The whole source. No `while`, no recursion and no list that grows while it is iterated over, so that
            no small edit of it can run forever. It never changes its arguments.
        words: What the phrasings refer to.
        draw_args: Draws arguments to call it with.
        edges: Arguments that are always tried.
    """

    source: str
    words: Mapping[str, Any]
    draw_args: Callable[[Random], Arguments]
    edges: tuple[Arguments, ...]

    @property
    def key(self) -> str:
        """What decides the split."""
        return self.source

    @property
    def signature(self) -> str:
        """The `def` line of the function, which is the last one; helpers come before it."""
        return [line for line in self.source.splitlines() if line.startswith("def ")][-1]

    @property
    def entry_point(self) -> str:
        """Name of the function."""
        return self.signature[4:].partition("(")[0]


Draft = Program | Function


@dataclass(frozen=True)
class Family:
    """A kind of task: draws a draft and words it in one of several ways."""

    name: str
    kind: Kind
    area: Area
    level: int
    """Difficulty, 1 to 5."""
    phrasings: tuple[str, ...]
    draw: Callable[[Random], Draft] = field(compare=False)
    held_out: bool = False
    """Asked in the split of unseen families and in no other."""

    def word(self, draft: Draft, rng: Random) -> str:
        """Word a draft of this family."""
        return rng.choice(self.phrasings).format_map(draft.words)


FAMILIES: dict[str, Family] = {}
"""Every family by name."""

Register = Callable[[Callable[[Random], Draft]], Callable[[Random], Draft]]


def register(kind: Kind, area: Area, level: int, phrasings: tuple[str, ...], held_out: bool) -> Register:
    """Register a function that draws, under its own name."""

    def enter(draw: Callable[[Random], Draft]) -> Callable[[Random], Draft]:
        name: str = draw.__name__  # type: ignore[attr-defined]
        FAMILIES[name] = Family(name, kind, area, level, phrasings, draw, held_out)
        return draw

    return enter


def value(area: Area, level: int, *phrasings: str, held_out: bool = False) -> Register:
    """Register a family of value tasks."""
    return register(Kind.VALUE, area, level, phrasings, held_out)


def function(area: Area, level: int, *phrasings: str, held_out: bool = False) -> Register:
    """Register a family of function tasks."""
    return register(Kind.FUNCTION, area, level, phrasings, held_out)


def predict(area: Area, level: int, *phrasings: str, held_out: bool = False) -> Register:
    """Register a family of predict tasks; the program follows the phrasing in the prompt."""
    return register(Kind.PREDICT, area, level, phrasings, held_out)


def block(text: str) -> str:
    """Return source that is indented in ours, at the left margin, without lines that an empty part left blank."""
    kept = [line for line in text.split("\n") if line.strip() or not line]
    return dedent("\n".join(kept)).strip("\n") + "\n"
