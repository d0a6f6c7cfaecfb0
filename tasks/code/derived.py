"""Families that build on the function families: repair a function, or predict its result.

The source of the function always decides the split, so every task about one function is in the same split.
"""

from __future__ import annotations

from random import Random

from agentgym.tasks.code.families import FAMILIES, Area, CodeFamily, Function, Program, TaskKind, register

_FIX = (
    "{rule}",
    "Here is what the function should do. {rule}",
    "This is the specification. {rule}",
)
_TRACE = (
    "What does this program print?",
    "Work out the output of this program.",
    "What is the exact output of the following program?",
)


def _functions(areas: tuple[Area, ...], levels: range, held_out: bool) -> list[CodeFamily]:
    return [
        family
        for family in FAMILIES.values()
        if family.kind is TaskKind.FUNCTION
        and family.area in areas
        and family.level in levels
        and family.held_out == held_out
    ]


def _fix(name: str, level: int, areas: tuple[Area, ...], levels: range, held_out: bool = False) -> None:
    """Register a family that puts bugs into functions of some areas and levels."""

    def draw(rng: Random) -> Function:
        base = rng.choice(_functions(areas, levels, held_out))
        function = base.draw(rng)
        assert isinstance(function, Function)
        rule = base.word(function, rng).strip()
        return Function(function.source, {"rule": rule}, function.draw_args, function.edges)

    register(TaskKind.FIX, areas[0], level, *_FIX, held_out=held_out, name=name)(draw)


def _trace(name: str, level: int, areas: tuple[Area, ...], levels: range, held_out: bool = False) -> None:
    """Register a family that shows a function of some areas and levels with one call."""

    def draw(rng: Random) -> Program:
        function = rng.choice(_functions(areas, levels, held_out)).draw(rng)
        assert isinstance(function, Function)
        call = ", ".join(map(repr, function.draw_args(rng)))
        code = f"{function.source}\n\nprint(repr({function.entry_point}({call})))\n"
        return Program(code, part=function.source)

    register(TaskKind.PREDICT, areas[0], level, *_TRACE, held_out=held_out, name=name)(draw)


_EVERY = tuple(Area)

_fix("fix_formula", 1, (Area.NUMERIC, Area.LISTS, Area.STRINGS), range(1, 2))
_fix("fix_numeric", 2, (Area.NUMERIC,), range(2, 4))
_fix("fix_strings", 2, (Area.STRINGS,), range(2, 4))
_fix("fix_lists", 2, (Area.LISTS,), range(2, 4))
_fix("fix_parsing", 3, (Area.PARSING,), range(2, 5))
_fix("fix_simulation", 3, (Area.SIMULATION,), range(2, 5))
_fix("fix_dates", 3, (Area.DATES,), range(2, 5))
_fix("fix_graphs", 4, (Area.GRAPHS,), range(3, 6))
_fix("fix_algorithms", 4, (Area.ALGORITHMS,), range(2, 6))
_fix("fix_two_bugs", 5, _EVERY, range(3, 6))
_fix("fix_unseen", 4, _EVERY, range(1, 6), held_out=True)
_trace("trace_small", 2, (Area.LISTS, Area.NUMERIC, Area.STRINGS), range(1, 3))
_trace("trace_parsing", 3, (Area.PARSING, Area.DATES), range(2, 4))
_trace("trace_simulation", 4, (Area.SIMULATION, Area.GRAPHS), range(3, 5))
_trace("trace_algorithms", 5, (Area.ALGORITHMS, Area.GRAPHS, Area.PARSING, Area.SIMULATION), range(4, 6))
_trace("trace_unseen", 3, _EVERY, range(1, 6), held_out=True)
