"""Changes a test so that correct code no longer passes it, and nothing in the test reveals the change.

Constants are replaced by others of their kind (`values`), expected exceptions by others, conditions by their
opposites; a changed test has the same statements in the same lines. The expected values of a test can also be withheld
from it (`withholding`). Works on syntax trees; runs nothing.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from agentgym.base.syntax import parse
from agentgym.envs.swe.expectations import Rank, affirmed, constants, opposite_of, parametrised, ranked, set_opposite
from agentgym.envs.swe.ids import Function
from agentgym.envs.swe.inside import STAND_IN
from agentgym.envs.swe.values import Pools, Value, changeable, others

_ERRORS = ("ValueError", "TypeError", "KeyError", "IndexError", "AttributeError", "RuntimeError", "LookupError")
UNKNOWN_ROW = -1
WITHHOLDING = ("value", "condition", "raised", "left out")
"""Kinds of edits that replace an expected value, truth or exception by a stand-in, or drop a condition."""
_PER_PLACE = 6
"""Most changes of one place before the next place has its turn."""


@dataclass(frozen=True, order=True)
class NodeEdit:
    """The replacement of one node of a function."""

    number: int
    """Number of the node in the function, in the order of `ast.walk`."""
    kind: str
    """`constant`, `opposite` or `raises`; or one of `WITHHOLDING`."""
    text: str = ""
    """Source of the new constant, of the new exception, or of the withheld value."""


@dataclass(frozen=True, order=True)
class FunctionChange:
    """Changes a test function into one that correct code fails, or that does not hold its expected values."""

    path: str
    scope: str
    name: str
    edits: tuple[NodeEdit, ...]
    row: int | None = None
    """The row of the function's parametrisation that it changes, and ids with it; `UNKNOWN_ROW` if there are several
    parametrisations; `None` if it changes the body."""

    @property
    def place(self) -> tuple[str, str, str]:
        """Path, classes and name of the function."""
        return self.path, self.scope, self.name

    def to_list(self) -> list[object]:
        """Return it as JSON data."""
        edits = [[edit.number, edit.kind, edit.text] for edit in self.edits]
        return [self.path, self.scope, self.name, edits, self.row]

    @classmethod
    def from_list(cls, data: Sequence[object]) -> FunctionChange:
        """Rebuild it from `to_list`."""
        path, scope, name, edits, row = data
        assert isinstance(edits, list)
        node_edits = tuple(NodeEdit(int(number), str(kind), str(text)) for number, kind, text in edits)
        assert row is None or isinstance(row, int)
        return cls(str(path), str(scope), str(name), node_edits, row)


def change(function: Function, edits: Sequence[NodeEdit]) -> None:
    """Apply edits to a function."""
    nodes = list(ast.walk(function))
    for edit in edits:
        node = nodes[edit.number]
        if edit.kind == "constant":
            assert isinstance(node, ast.Constant)
            node.value, node.kind = ast.literal_eval(parse(edit.text, mode="eval")), None
        elif edit.kind == "raises":
            assert isinstance(node, ast.Call)
            node.args[0] = parse(edit.text, mode="eval").body
        elif edit.kind == "opposite":
            set_opposite(node)
    _Withholding({id(nodes[edit.number]): edit for edit in edits if edit.kind in WITHHOLDING}).visit(function)


class _Withholding(ast.NodeTransformer):
    """Replaces nodes with stand-ins."""

    def __init__(self, edits: Mapping[int, NodeEdit]):
        self._edits = edits

    def visit(self, node: ast.AST) -> ast.AST:
        """Return a node or its replacement."""
        edit = self._edits.get(id(node))
        if edit is None:
            return self.generic_visit(node)
        if edit.kind == "left out":
            return ast.Constant(True)
        stand_in = ast.Call(ast.Name(STAND_IN, ast.Load()), [ast.Constant(edit.number)], [])
        if edit.kind != "condition":
            return stand_in
        assert isinstance(node, ast.expr)
        truth = ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), affirmed(node)[0]))
        return ast.Compare(stand_in, [ast.Eq()], [truth])


def proposals(function: Function, source: str, rng: random.Random) -> Iterator[tuple[tuple[NodeEdit, ...], int | None]]:
    """Yield different changes of a function with their `FunctionChange.row`, the clearest contradictions first.

    Places of a rank take turns, so that the first few changes are of many kinds and in many places.
    """
    module = _parsed(source)
    pools = Pools(constants(function), constants(module))
    places: dict[Rank, list[Iterator[tuple[NodeEdit, ...]]]] = {}
    rows = rows_of(function)
    nodes = list(ast.walk(function))
    for place in ranked(function):
        node = nodes[place.number]
        if place.rank is Rank.OPPOSITE:
            changes = iter([(NodeEdit(place.number, "opposite"),)]) if opposite_of(node) else iter(())
        elif place.rank is Rank.RAISES:
            changes = _other_errors(place.number, node, module, rng)
        else:
            assert isinstance(node, ast.Constant)
            changes = _other_constants(place.number, node.value, pools, rng)
        places.setdefault(place.rank, []).append(changes)
        if place.partners:
            places[place.rank].append(_exchanged(place.number, place.partners, nodes, rng))
    for rank in sorted(places):
        turns = [islice(place_changes, _PER_PLACE) for place_changes in places[rank]]
        rng.shuffle(turns)
        while turns:
            for turn in list(turns):
                edits = next(turn, None)
                if edits is None:
                    turns.remove(turn)
                else:
                    yield edits, rows.get(id(nodes[edits[0].number]))


def rows_of(function: Function) -> dict[int, int]:
    """Return the rows of the function's parametrisation by the ids of their syntax nodes."""
    parametrisations = [rows for _, rows in parametrised(function)]
    unambiguous = len(function.decorator_list) == 1 == len(parametrisations)
    return {
        id(node): number if unambiguous else UNKNOWN_ROW
        for rows in parametrisations
        for number, row in enumerate(rows)
        for node in ast.walk(row)
    }


def _other_constants(number: int, value: object, pools: Pools, rng: random.Random) -> Iterator[tuple[NodeEdit, ...]]:
    assert isinstance(value, bool | int | float | str | bytes)
    for other in others(value, pools, rng):
        yield (NodeEdit(number, "constant", repr(other)),)


def _exchanged(
    number: int, partners: Sequence[int], nodes: Sequence[ast.AST], rng: random.Random
) -> Iterator[tuple[NodeEdit, ...]]:
    """Yield swaps of a constant with others of the same expectation: right values in the wrong order."""
    own = _value(nodes[number])
    for partner in rng.sample(partners, len(partners)):
        other = _value(nodes[partner])
        if type(other) is type(own) and other != own:
            yield NodeEdit(number, "constant", repr(other)), NodeEdit(partner, "constant", repr(own))


def _value(node: ast.AST) -> Value:
    assert isinstance(node, ast.Constant)
    assert changeable(node.value)
    return node.value  # type: ignore[return-value]


def _other_errors(number: int, node: ast.AST, module: ast.Module, rng: random.Random) -> Iterator[tuple[NodeEdit, ...]]:
    """Yield other exceptions to expect: those that the module's other tests expect, then some that any test may."""
    assert isinstance(node, ast.Call)
    calls = [nodes for nodes in ast.walk(module) if isinstance(nodes, ast.Call)]
    expected = [ast.unparse(call.args[0]) for call in calls if expects_error(call)]
    own = ast.unparse(node.args[0])
    for pool in (expected, _ERRORS):
        names = sorted({name for name in pool if name != own and name.rpartition(".")[2] not in ("Exception",)})
        for name in rng.sample(names, len(names)):
            yield (NodeEdit(number, "raises", name),)


def expects_error(call: ast.Call) -> bool:
    """Whether a call expects an exception by name."""
    named = isinstance(call.func, ast.Attribute) and call.func.attr in ("raises", "assertRaises", "assertRaisesRegex")
    return named and bool(call.args) and isinstance(call.args[0], ast.Name | ast.Attribute)


@lru_cache(64)
def _parsed(source: str) -> ast.Module:
    return parse(source)
