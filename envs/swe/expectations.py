"""Finds where a test function states its expected values, and where its inputs. Works on syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from agentgym.envs.swe.ids import Function
from agentgym.envs.swe.values import Value, changeable

_EQUAL_METHODS = {
    "assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual", "assertSetEqual",
    "assertSequenceEqual", "assertMultiLineEqual", "assertCountEqual", "assertAlmostEqual",
}  # fmt: skip
_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPPOSITE_METHODS = {
    "assertTrue": "assertFalse", "assertIn": "assertNotIn", "assertIs": "assertIsNot", "assertEqual": "assertNotEqual",
    "assertIsNone": "assertIsNotNone", "assertIsInstance": "assertNotIsInstance",
}  # fmt: skip
_OPPOSITE_METHODS |= {opposite: method for method, opposite in _OPPOSITE_METHODS.items()}


class Rank(IntEnum):
    """The role of a node; the lower the rank, the more clearly a change of it contradicts the test."""

    EXPECTED = 0
    """A constant that is, or is part of, an expected value."""
    BUILT = 1
    """The same, but as an argument of a constructor: `date(2024, 2, 29)`."""
    ASSERTED = 2
    """Another constant in an assertion, or the expected text of an exception."""
    RAISES = 3
    """The expected exception."""
    OPPOSITE = 4
    """A condition."""
    INPUT = 5
    """Any other constant."""


@dataclass(frozen=True)
class RankedNode:
    """A node that can be changed."""

    number: int
    """Its number in the order of `ast.walk`."""
    rank: Rank
    partners: tuple[int, ...] = ()
    """Other constants of the same expectation."""


def constants(tree: ast.AST) -> list[Value]:
    """Return the changeable constants in a tree, each as often as it occurs, without docstrings."""
    unfit = _unfit(tree)
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in unfit)
    return [node.value for node in nodes if changeable(node.value)]  # type: ignore[misc]


def ranked(function: Function) -> list[RankedNode]:
    """Return the places of a function that can be changed, each once."""
    numbers = {id(node): number for number, node in enumerate(ast.walk(function))}
    ranks: dict[int, Rank] = {}
    groups: dict[int, list[int]] = {}
    unfit = _unfit(function)

    def note(node: ast.AST, rank: Rank, group: list[int] | None = None) -> None:
        if id(node) in numbers and id(node) not in unfit and numbers[id(node)] not in ranks:
            ranks[numbers[id(node)]] = rank
            if group is not None:
                group.append(numbers[id(node)])
                groups[numbers[id(node)]] = group

    for side in _expected_sides(function):
        group: list[int] = []
        for node in _leaves(side):
            note(node, Rank.EXPECTED if is_literal(side) else Rank.BUILT, group)
    for node in ast.walk(function):
        if opposite_of(node):
            note(node, Rank.OPPOSITE)
        if isinstance(node, ast.Call) and _is_raises(node):
            if node.args and isinstance(node.args[0], ast.Name | ast.Attribute):
                note(node, Rank.RAISES)
            for keyword in node.keywords:
                for part in ast.walk(keyword.value):
                    _note_constant(part, Rank.ASSERTED, note)
        elif isinstance(node, ast.Assert) or _method(node).startswith("assert"):
            for part in _outside_calls(node):
                _note_constant(part, Rank.ASSERTED, note)
    for body in (function.body, _rows(function)):
        for statement in body:
            for part in ast.walk(statement):
                _note_constant(part, Rank.INPUT, note)
    partners = {number: tuple(partner for partner in group if partner > number) for number, group in groups.items()}
    return [RankedNode(number, rank, partners.get(number, ())) for number, rank in sorted(ranks.items())]


def _outside_calls(assertion: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of an assertion that are not passed to the code under test."""
    for part in ast.iter_child_nodes(assertion):
        yield part
        if not isinstance(part, ast.Call):
            yield from _outside_calls(part)


def _note_constant(node: ast.AST, rank: Rank, note) -> None:  # type: ignore[no-untyped-def]
    if isinstance(node, ast.Constant) and changeable(node.value):
        note(node, rank)


def _unfit(tree: ast.AST) -> set[int]:
    """Return the constants that are not values: docstrings, parts of f-strings."""
    unfit = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            unfit.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            unfit |= {id(part) for part in ast.walk(node) if isinstance(part, ast.Constant)}
    return unfit


def _expected_sides(function: Function) -> Iterator[ast.expr]:
    """Yield the expected sides of comparisons: literal, bound to a name, or a parameter of the cases."""
    names: set[str] = set()
    for node in ast.walk(function):
        for pair in _compared(node):
            plain = [side for side in pair if _is_plain(side)]
            # If both sides qualify, the right one is usually the expectation.
            yield from plain[-1:]
            names |= {side.id for side in pair if isinstance(side, ast.Name)}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and _is_plain(node.value):
            bound = {target.id for target in node.targets if isinstance(target, ast.Name)}
            if bound & names:
                yield node.value
    for columns, rows in parametrised(function):
        for row in rows:
            cells = row.args if isinstance(row, ast.Call) else row.elts if isinstance(row, ast.Tuple | ast.List) else ()
            cells = [row] if len(columns) == 1 and not isinstance(row, ast.Call) else cells
            for column, cell in zip(columns, cells, strict=False):
                if column in names and _is_plain(cell):
                    yield cell


def _compared(node: ast.AST) -> Iterator[list[ast.expr]]:
    """Yield the two sides of every equality that a node asserts."""
    if isinstance(node, ast.Assert):
        for part in ast.walk(node.test):
            if isinstance(part, ast.Compare) and len(part.ops) == 1 and isinstance(part.ops[0], ast.Eq):
                yield [part.left, part.comparators[0]]
    elif isinstance(node, ast.Call) and _method(node) in _EQUAL_METHODS and len(node.args) >= 2:
        yield node.args[:2]


def parametrised(function: Function) -> Iterator[tuple[list[str], list[ast.expr]]]:
    """Yield the columns and rows of each literal parametrisation."""
    for call in function.decorator_list:
        if not isinstance(call, ast.Call) or getattr(call.func, "attr", "") != "parametrize" or len(call.args) < 2:
            continue
        if isinstance(call.args[1], ast.List | ast.Tuple):
            yield _columns(call.args[0]), call.args[1].elts


def _columns(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Constant):
        return [name.strip() for name in str(node.value).split(",")]
    parts = node.elts if isinstance(node, ast.Tuple | ast.List) else []
    return [str(part.value) for part in parts if isinstance(part, ast.Constant)]


def _rows(function: Function) -> list[ast.expr]:
    return [row for _, rows in parametrised(function) for row in rows]


def _leaves(side: ast.expr) -> Iterator[ast.Constant]:
    """Yield the constants of a plain expression."""
    if isinstance(side, ast.Constant):
        if changeable(side.value):
            yield side
    elif isinstance(side, ast.UnaryOp):
        yield from _leaves(side.operand)
    else:
        for part in _parts(side):
            yield from _leaves(part)


def _parts(side: ast.expr) -> list[ast.expr]:
    if isinstance(side, ast.List | ast.Tuple | ast.Set):
        return side.elts
    if isinstance(side, ast.Dict):
        return [part for part in (*side.keys, *side.values) if part is not None]
    if isinstance(side, ast.Call):
        return [*side.args, *(keyword.value for keyword in side.keywords)]
    return []


def is_literal(side: ast.expr) -> bool:
    """Whether an expression consists only of constants and containers."""
    if isinstance(side, ast.Constant):
        return True
    if isinstance(side, ast.UnaryOp):
        return isinstance(side.operand, ast.Constant)
    return isinstance(side, ast.List | ast.Tuple | ast.Set | ast.Dict) and all(map(is_literal, _parts(side)))


def _is_plain(side: ast.expr) -> bool:
    """Whether an expression is plain: literal, or an object constructed from plain expressions."""
    if isinstance(side, ast.Call):
        name = side.func.attr if isinstance(side.func, ast.Attribute) else getattr(side.func, "id", "")
        builds = name[:1].isupper() or name in _BUILDERS
        return builds and all(map(_is_plain, _parts(side)))
    if isinstance(side, ast.List | ast.Tuple | ast.Set | ast.Dict):
        return all(map(_is_plain, _parts(side)))
    return is_literal(side)


_BUILDERS = {
    "approx", "date", "datetime", "time", "timedelta", "set", "frozenset", "list", "tuple", "dict", "deque",
    "bytearray", "bytes", "range", "complex", "namedtuple", "array",
}  # fmt: skip


def _method(node: ast.AST) -> str:
    """Return the name of the method of `self` that a node calls."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        return node.func.attr if node.func.value.id == "self" else ""
    return ""


def _is_raises(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr in ("raises", "assertRaises", "assertRaisesRegex")


def opposite_of(node: ast.AST) -> bool:
    """Whether a node asserts a condition that can be negated."""
    return isinstance(node, ast.Assert) or _method(node) in _OPPOSITE_METHODS


def set_opposite(node: ast.AST) -> None:
    """Negate the condition that a node asserts."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node.func.attr = _OPPOSITE_METHODS[node.func.attr]
    elif isinstance(node, ast.Assert):
        test = node.test
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            test.ops = [_OPPOSITES[type(test.ops[0])]()]
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            node.test = test.operand
        else:
            node.test = ast.UnaryOp(op=ast.Not(), operand=test)


_NEGATIONS: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.NotEq: ast.Eq, ast.IsNot: ast.Is, ast.NotIn: ast.In}


def affirmed(condition: ast.expr) -> tuple[ast.expr, bool]:
    """Return a condition without its negations, and the truth value that it must have for the condition to hold."""
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        inner, holds = affirmed(condition.operand)
        return inner, not holds
    if isinstance(condition, ast.Compare) and len(condition.ops) == 1 and type(condition.ops[0]) in _NEGATIONS:
        return ast.Compare(condition.left, [_NEGATIONS[type(condition.ops[0])]()], condition.comparators), False
    return condition, True
