"""Small faults in source files, such as a programmer makes, and a sample of them. Cosmic Ray makes them.

A *place* is a comparison, an operator, a number, a condition, a loop or a handler. A sample draws places, each with one
of the faults that it can have: a place does not count for more because there are many ways to spoil it.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

COMPARISONS = {
    "Lt": ("LtE", "GtE"),
    "LtE": ("Lt", "Gt"),
    "Gt": ("GtE", "LtE"),
    "GtE": ("Gt", "Lt"),
    "Eq": ("NotEq",),
    "NotEq": ("Eq",),
    "Is": ("IsNot",),
    "IsNot": ("Is",),
}
"""A boundary moved by one, or the opposite. Other swaps are easier to notice than these."""

ARITHMETIC = {
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "Div",
    "Div": "Mul",
    "FloorDiv": "Mul",
    "Mod": "FloorDiv",
    "Pow": "Mul",
    "BitOr": "BitAnd",
    "BitAnd": "BitOr",
    "LShift": "RShift",
    "RShift": "LShift",
}

OPERATORS = (
    *(f"ReplaceComparisonOperator_{a}_{b}" for a, others in COMPARISONS.items() for b in others),
    *(f"ReplaceBinaryOperator_{a}_{b}" for a, b in ARITHMETIC.items()),
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "AddNot",
    "ReplaceUnaryOperator_Delete_Not",
    "ReplaceUnaryOperator_Delete_USub",
    "NumberReplacer",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ZeroIterationForLoop",
    "ExceptionReplacer",
)

ASIDE = {"frozen", "strict", "stacklevel", "padding", "width", "min_width", "max_width", "indent", "expand", "no_wrap"}
"""Arguments that say how something looks, or guard against slips of programmers (`zip(..., strict=True)`)."""


@dataclass(frozen=True)
class Mutant:
    """One file with one fault."""

    file: str
    operator: str
    occurrence: int
    """Which of the places that the operator can spoil, from 0."""
    number: int
    """Line of the fault, from 1."""
    line: str
    """What the line said, without the space around it."""
    becomes: str
    source: str
    """The whole file with the fault."""


def draw(sources: Mapping[str, str], sample: int, seed: int) -> list[Mutant]:
    """Return `sample` mutants of some files, or all there are places for; a larger sample begins with a smaller one.

    Args:
        sources: Name to content of each file.
        sample: How many.
        seed: Seeds the choice.
    """
    chance = random.Random(f"mutants/{seed}")
    places = [(file, choices) for file in sorted(sources) for choices in _places(sources[file])]
    chance.shuffle(places)
    found: list[Mutant] = []
    for file, choices in places:
        if len(found) == sample:
            break
        operator, occurrence = chance.choice(choices)
        if mutant := _mutant(file, sources[file], operator, occurrence):
            found.append(mutant)
    return found


def _places(source: str) -> Iterator[Sequence[tuple[str, int]]]:
    """Yield, for each place in a file, the operators that can spoil it and which of their places it is."""
    nodes = list(ast_nodes(get_ast(source)))
    places: dict[tuple[str, object], list[tuple[str, int]]] = {}
    for name in OPERATORS:
        positions = (place for node in nodes for place in get_operator(f"core/{name}")().mutation_positions(node))
        for occurrence, place in enumerate(positions):
            places.setdefault((name.partition("_")[0], place), []).append((name, occurrence))
    yield from places.values()


def _mutant(file: str, source: str, operator: str, occurrence: int) -> Mutant | None:
    """Return a mutant, or `None` if the program does the same (a type, the words of an error) or is none."""
    try:
        spoiled = mutate_code(source, get_operator(f"core/{operator}")(), occurrence)
        if spoiled is None or _sense(spoiled) == _sense(source):
            return None
    except (SyntaxError, AttributeError):  # the latter: Cosmic Ray knows no handlers of dotted names
        return None
    before, after = source.splitlines(), spoiled.splitlines()
    number = next(i for i, (old, new) in enumerate(zip(before, after, strict=False)) if old != new)
    return Mutant(file, operator, occurrence, number + 1, _line(before[number]), _line(after[number]), spoiled)


def _line(text: str) -> str:
    """Return a line with single spaces: Cosmic Ray puts one before what it has replaced."""
    return " ".join(text.replace("( ", "(").replace("[ ", "[").split())


def _sense(source: str) -> str:
    """Return what a program does, without what is only said: types, the words of its errors, how tables look."""
    return ast.dump(_Sense().visit(ast.parse(source)))


class _Sense(ast.NodeTransformer):
    """Leaves out types, how arguments may be passed, f-strings of errors that are raised, and arguments aside."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        # The bare `*` between parameters is taken for a multiplication.
        node.args = [*node.posonlyargs, *node.args, *node.kwonlyargs]
        node.posonlyargs, node.kwonlyargs = [], []
        node.defaults = [*node.defaults, *(default for default in node.kw_defaults if default is not None)]
        node.kw_defaults = []
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return _Words().visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        if node.arg in ASIDE:
            node.value = ast.Constant(None)
        return self.generic_visit(node)


class _Words(ast.NodeTransformer):
    """Leaves out f-strings."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.Constant("")
