"""Sample small faults in source files, made by Cosmic Ray.

A *place* is a comparison, an operator, a number, a condition, a loop or a handler. A sample draws places, each with one
of its possible faults, so that places with many possible faults have no extra weight. The draw of a place depends only
on its own line: edits elsewhere and other versions of Cosmic Ray do not affect it.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
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
"""A boundary moved by one, or the opposite. Other replacements are easier to notice."""

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
ASIDE |= {"maxsize", "total"}
"""Arguments for appearance, cache sizes, type checkers (`total=False`), and guards against programming errors
(`zip(..., strict=True)`)."""


@dataclass(frozen=True)
class Mutant:
    """One file with one fault."""

    file: str
    operator: str
    occurrence: int
    """Index, from 0, of the place among all that the operator can change."""
    number: int
    """Line of the fault, from 1."""
    line: str
    """The original line, stripped."""
    becomes: str
    source: str
    """The whole file with the fault."""


@dataclass(frozen=True)
class _Place:
    """A place that can be changed, identified by its line, so that edits elsewhere do not matter."""

    file: str
    line: str
    kind: str
    """The name of the operators without their replacement: `AddNot`, `ReplaceComparisonOperator`."""
    column: int
    """Offset from the start of the line's text."""
    repeat: int
    """Index, from 0, among places that agree in all of the above."""
    choices: tuple[tuple[str, int], ...]
    """The operators that can change it, each with the index of the place."""

    def rank(self, seed: int, becomes: str = "") -> bytes:
        """Return the sort key of this place for a seed, or of the mutant `becomes` among those of the place."""
        name = (seed, self.file, self.line, self.kind, self.column, self.repeat, becomes)
        return hashlib.sha256(repr(name).encode()).digest()


def draw(sources: Mapping[str, str], sample: int, seed: int) -> list[Mutant]:
    """Return `sample` mutants of some files, or one for every place; a larger sample starts with a smaller one.

    Args:
        sources: Name to content of each file.
        sample: Number of mutants.
        seed: Seeds the choice.
    """
    places = [place for file, source in sources.items() for place in _places(file, source)]
    mutants_drawn: list[Mutant] = []
    for place in sorted(places, key=lambda place: place.rank(seed)):
        if len(mutants_drawn) == sample:
            break
        source = sources[place.file]
        mutants = [mutant for choice in place.choices if (mutant := _mutant(place.file, source, *choice))]
        if mutants:
            mutants_drawn.append(min(mutants, key=lambda mutant: place.rank(seed, mutant.becomes)))
    return mutants_drawn


def _places(file: str, source: str) -> Iterator[_Place]:
    """Yield the places of a file with their possible changes."""
    nodes, lines = list(ast_nodes(get_ast(source))), source.splitlines()
    places: dict[tuple[str, tuple[int, int]], list[tuple[str, int]]] = {}
    for name in OPERATORS:
        positions = (place for node in nodes for place in get_operator(f"core/{name}")().mutation_positions(node))
        for occurrence, (start, _) in enumerate(positions):
            places.setdefault((name.partition("_")[0], start), []).append((name, occurrence))
    alike: Counter[tuple[str, str, int]] = Counter()
    for (kind, (number, column)), choices in sorted(places.items()):
        line = lines[number - 1]
        text = line.strip()
        name = (text, kind, column - len(line) + len(line.lstrip()))
        yield _Place(file, *name, alike[name], tuple(choices))
        alike[name] += 1


def _mutant(file: str, source: str, operator: str, occurrence: int) -> Mutant | None:
    """Return a mutant, or `None` if it is impossible or behaves the same (a type, the text of an error)."""
    try:
        spoiled = mutate_code(source, get_operator(f"core/{operator}")(), occurrence)
        if spoiled is None or _sense(spoiled) == _sense(source):
            return None
    except (SyntaxError, AttributeError):  # AttributeError: Cosmic Ray does not support handlers of dotted names
        return None
    before, after = source.splitlines(), spoiled.splitlines()
    number = next(i for i, (old, new) in enumerate(zip(before, after, strict=False)) if old != new)
    return Mutant(file, operator, occurrence, number + 1, _line(before[number]), _line(after[number]), spoiled)


def _line(text: str) -> str:
    """Return a line with single spaces: Cosmic Ray adds one before its replacements."""
    return " ".join(text.replace("( ", "(").replace("[ ", "[").split())


def _sense(source: str) -> str:
    """Return a program without parts that have no effect: types, texts of errors, appearance of tables."""
    return ast.dump(_Sense().visit(ast.parse(source)))


class _Sense(ast.NodeTransformer):
    """Drops types, the kinds of parameters, f-strings in raised errors, and the arguments in `ASIDE`."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        # Cosmic Ray takes the bare `*` between parameters for a multiplication.
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
    """Drops f-strings."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.Constant("")
