"""Finds the expected values that can be kept out of the process that runs a test. Works on syntax trees; runs nothing.

A place counts only if the test always reaches it, and if the only use of the expected value is one exact comparison: a
passing test has then compared it with an equal value.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence

from agentgym.envs.swe.expectations import affirmed, opposite_of, parametrised
from agentgym.envs.swe.ids import Function
from agentgym.envs.swe.notes import value_of
from agentgym.envs.swe.perturb import UNKNOWN_ROW, NodeEdit, rows_of

_METHODS = ("assertEqual", "assertEquals")
_RAISES = ("raises", "assertRaises")
_INEXACT = ("approx", "isclose")
_COSTLY = re.compile(r"[*+{]")
"""Repetitions in a pattern, which may take long on a malicious text."""

_Pair = tuple[ast.expr, ast.expr]
_Place = tuple[ast.expr, str, str]
"""A node, and the kind and text of its edit."""


def withheld(function: Function) -> tuple[tuple[NodeEdit, ...], int | None]:
    """Return the edits that withhold all expected values of a function that can be, and their `Change.row`."""
    places = _places(function)
    numbers = {id(node): number for number, node in enumerate(ast.walk(function))}
    edits = {NodeEdit(numbers[id(node)], kind, text) for node, kind, text in places if kind != "name"}
    rows = rows_of(function)
    in_rows = any(id(node) in rows for node, kind, _ in places if kind == "value")
    return tuple(sorted(edits)), UNKNOWN_ROW if in_rows else None


def decided(function: Function) -> frozenset[int]:
    """Return the numbers of the nodes whose change contradicts the true test: no code passes both.

    These are expected values and whole conditions that every run reaches. If another node is changed, code may pass
    both tests: wrong code may accept an input that correct code rejects.
    """
    values = [part for node, kind, _ in _places(function) if kind == "value" for part in ast.walk(node)]
    asserted = [
        statement.value if isinstance(statement, ast.Expr) else statement for statement in _certain(function.body)
    ]
    nodes = {id(node) for node in (*values, *filter(opposite_of, asserted))}
    return frozenset(number for number, node in enumerate(ast.walk(function)) if id(node) in nodes)


def _places(function: Function) -> list[_Place]:
    """Return the expectations that every run reaches, each with the kind and the text of the edit that withholds it."""
    statements = list(_certain(function.body))
    conditions = [
        part for statement in statements if isinstance(statement, ast.Assert) for part in _all_of(statement.test)
    ]
    places = list(_named_values(function, conditions, _calls(statements)))
    left_out = {id(node) for node, kind, _ in places if kind == "left out"}
    names = {node.id for node, kind, _ in places if kind == "name" and isinstance(node, ast.Name)}
    for condition in conditions:
        if id(condition) not in left_out:
            places += _of_condition(condition, names)
    for call in _calls(statements):
        places += _values([(call.args[0], call.args[1])])
    return places + [
        place for statement in statements if isinstance(statement, ast.With) for place in _raised(statement)
    ]


def _certain(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run the same number of times whatever the code under test does."""
    for statement in body:
        if _may_leave(statement):
            return
        yield statement
        if isinstance(statement, ast.For) and not _is_plain(statement.iter):
            continue
        if isinstance(statement, ast.With) and any(_is_call(item.context_expr, _RAISES) for item in statement.items):
            continue
        if isinstance(statement, ast.For | ast.With | ast.AsyncWith):
            yield from _certain(statement.body)


def _may_leave(statement: ast.AST) -> bool:
    """Whether the statements after this one may be skipped."""
    if isinstance(statement, ast.Return | ast.Break | ast.Continue):
        return True
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    return any(map(_may_leave, ast.iter_child_nodes(statement)))


def _all_of(condition: ast.expr) -> Iterator[ast.expr]:
    """Yield the conditions that must all hold."""
    if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And):
        for part in condition.values:
            yield from _all_of(part)
    else:
        yield condition


def _calls(statements: Sequence[ast.stmt]) -> list[ast.Call]:
    """Return the calls of unittest methods that assert that their first two arguments are equal."""
    calls = [
        statement.value
        for statement in statements
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    ]
    starred = (ast.Starred,)
    return [
        call
        for call in calls
        if _is_call(call, _METHODS)
        and len(call.args) >= 2
        and not any(isinstance(argument, starred) for argument in call.args)
    ]


def _sides(condition: ast.expr) -> list[_Pair]:
    """Return the two sides of an equality."""
    if isinstance(condition, ast.Compare) and len(condition.ops) == 1 and isinstance(condition.ops[0], ast.Eq):
        return [(condition.left, condition.comparators[0])]
    return []


def _of_condition(condition: ast.expr, names: Collection[str]) -> list[_Place]:
    """Return the places to withhold in a condition: its expected values, or else its truth value.

    Args:
        condition: The condition, which must hold.
        names: Names whose values are withheld.
    """
    pairs = _sides(condition)
    if any(isinstance(side, ast.Name) and side.id in names for pair in pairs for side in pair):
        return []
    return _values(pairs) or [(condition, "condition", str(affirmed(condition)[1]))]


def _values(pairs: Sequence[_Pair]) -> list[_Place]:
    """Return the plain sides whose other side is not plain and is compared exactly."""
    places: list[_Place] = []
    for pair in pairs:
        plain = [_is_plain(side) for side in pair]
        if sum(plain) == 1:
            side, other = pair if plain[0] else pair[::-1]
            if not _is_inexact(other):
                places.append((side, "value", ast.unparse(side)))
    return places


def _is_plain(side: ast.expr) -> bool:
    """Whether an expression is plain."""
    try:
        value_of(ast.unparse(side))
    except ValueError:
        return False
    return True


def _is_inexact(side: ast.expr) -> bool:
    return any(_is_call(node, _INEXACT) for node in ast.walk(side))


def _is_call(node: ast.AST, names: Collection[str]) -> bool:
    """Whether a node calls a function or method of one of these names."""
    if not isinstance(node, ast.Call):
        return False
    return (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")) in names


def _raised(statement: ast.With) -> Iterator[_Place]:
    """Yield the exceptions that a statement expects."""
    for item in statement.items:
        call = item.context_expr
        if isinstance(call, ast.Call) and _is_call(call, _RAISES) and len(call.args) == 1:
            kind = call.args[0]
            match = [keyword.value.value for keyword in call.keywords if isinstance(keyword.value, ast.Constant)]
            simple = not any(_COSTLY.search(str(text)) for text in match)
            if isinstance(kind, ast.Name | ast.Attribute) and len(match) == len(call.keywords) <= 1 and simple:
                name = kind.id if isinstance(kind, ast.Name) else kind.attr
                yield call, "raised", repr((name, *match))


def _named_values(function: Function, conditions: Sequence[ast.expr], calls: Sequence[ast.Call]) -> Iterator[_Place]:
    """Yield the values of names that are used only in comparisons, and the uses of these names.

    Drops the conditions that use such a name for something else.
    """
    pairs = [(pair, condition) for condition in conditions for pair in _sides(condition)]
    pairs += [((call.args[0], call.args[1]), call) for call in calls]
    for name in {side.id for pair, _ in pairs for side in pair if isinstance(side, ast.Name)}:
        uses = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == name]
        loads = {id(node) for node in uses if isinstance(node.ctx, ast.Load)}
        compared = [side for pair, _ in pairs if (side := _compared(name, pair)) is not None]
        other = [
            condition
            for condition in conditions
            if {id(node) for node in ast.walk(condition)} & (loads - set(map(id, compared)))
        ]
        covered = {id(node) for condition in other for node in ast.walk(condition)} | set(map(id, compared))
        values = [*_bound(function, uses), *_parameter_values(function, name, uses)]
        if values and compared and loads <= covered:
            yield from ((value, "value", ast.unparse(value)) for value in values)
            yield from ((side, "name", "") for side in compared)
            yield from ((condition, "left out", "") for condition in other)


def _compared(name: str, pair: _Pair) -> ast.Name | None:
    """Return the side of an equality that is a name, if the other side depends on the code under test."""
    for side, other in (pair, pair[::-1]):
        named = {node.id for node in ast.walk(other) if isinstance(node, ast.Name)}
        if isinstance(side, ast.Name) and side.id == name:
            return None if name in named or _is_inexact(other) or _is_plain(other) else side
    return None


def _bound(function: Function, uses: Sequence[ast.Name]) -> list[ast.expr]:
    """Return the value that a name is bound to, if it is bound once and the value is plain."""
    stores: list[ast.expr] = [node for node in uses if not isinstance(node.ctx, ast.Load)]
    return [
        statement.value
        for statement in function.body
        if isinstance(statement, ast.Assign) and statement.targets == stores and _is_plain(statement.value)
    ]


def _parameter_values(function: Function, name: str, uses: Sequence[ast.Name]) -> Iterator[ast.expr]:
    """Yield the values of a parameter in the cases, if they are plain and no case is named after them."""
    if not all(isinstance(node.ctx, ast.Load) for node in uses):
        return
    for columns, rows in parametrised(function):
        for row in rows:
            cells = row.elts if isinstance(row, ast.Tuple | ast.List) and len(columns) > 1 else [row]
            if isinstance(row, ast.Call):  # pytest.param
                cells = row.args
            for column, cell in zip(columns, cells, strict=False):
                if column == name and _is_plain(cell) and not _is_revealed(function, cell):
                    yield cell


def _is_revealed(function: Function, cell: ast.expr) -> bool:
    """Whether the names of the cases may reveal a value."""
    value = str(value_of(ast.unparse(cell)))
    keywords = (node for call in function.decorator_list for node in ast.walk(call) if isinstance(node, ast.keyword))
    constants = (node for keyword in keywords if keyword.arg in ("ids", "id") for node in ast.walk(keyword.value))
    return any(isinstance(node, ast.Constant) and value in str(node.value) for node in constants)
