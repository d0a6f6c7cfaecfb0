"""Realistic one-place bugs, as edits of a syntax tree: flipped comparisons, off by one, wrong operators and the like.

No edit can make a `Function` of this package run forever: none adds a loop or changes what a `for` iterates over,
except to make a range one shorter or longer. This module does not decide whether an edit matters.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class BugKind(StrEnum):
    """The kind of mistake that an edit makes."""

    COMPARISON = "comparison"
    OFF_BY_ONE = "off by one"
    OPERATOR = "operator"
    SWAPPED = "swapped"
    CALL = "wrong call"
    BRANCH = "missing branch"


@dataclass(frozen=True)
class BugEdit:
    """One bug: a new value for a field of a node."""

    bug: BugKind
    node: ast.AST
    field: str
    value: Any

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Apply the bug to the tree inside the `with` block."""
        before = getattr(self.node, self.field)
        setattr(self.node, self.field, self.value)
        try:
            yield
        finally:
            setattr(self.node, self.field, before)


_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mod,
    ast.Mod: ast.FloorDiv,
}
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_METHODS = {"upper": "lower", "lower": "upper", "startswith": "endswith", "endswith": "startswith"}


def edits(tree: ast.AST) -> list[BugEdit]:
    """Return every bug that can be put into a tree, in a fixed order."""
    bug_edits: list[BugEdit] = []
    for node in ast.walk(tree):
        bug_edits += _node_edits(node)
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                bug_edits += [BugEdit(bug, node, field, new) for bug, new in _replacements(value, node)]
            elif isinstance(value, list):
                bug_edits += _list_edits(node, field, value)
    return bug_edits


def _list_edits(node: ast.AST, field: str, items: list[Any]) -> Iterator[BugEdit]:
    for number, item in enumerate(items):
        if isinstance(item, ast.expr):
            for bug, new in _replacements(item, node):
                yield BugEdit(bug, node, field, [*items[:number], new, *items[number + 1 :]])
        elif isinstance(item, ast.If) and len(items) > 1 and isinstance(item.body[-1], ast.Return | ast.Continue):
            yield BugEdit(BugKind.BRANCH, node, field, [*items[:number], *items[number + 1 :]])
        elif isinstance(item, ast.Continue):
            yield BugEdit(BugKind.CALL, node, field, [*items[:number], ast.copy_location(ast.Break(), item)])


def _node_edits(node: ast.AST) -> Iterator[BugEdit]:
    match node:
        case ast.If(orelse=[_, *_]):
            yield BugEdit(BugKind.BRANCH, node, "orelse", [])
        case ast.AugAssign(op=ast.Add() | ast.Sub()):
            yield BugEdit(BugKind.OPERATOR, node, "op", _OPERATORS[type(node.op)]())
        case ast.comprehension(ifs=[_, *_]):
            yield BugEdit(BugKind.BRANCH, node, "ifs", node.ifs[1:])
        case ast.Lambda(body=ast.Tuple(elts=[first, second])):
            yield BugEdit(BugKind.SWAPPED, node.body, "elts", [second, first])
        case ast.Slice(lower=ast.expr() as lower, upper=None):
            yield BugEdit(BugKind.OFF_BY_ONE, node, "lower", _shifted(lower, 1))


def _replacements(expression: ast.expr, parent: ast.AST) -> Iterator[tuple[BugKind, ast.expr]]:
    match expression:
        case ast.Compare(ops=[op, *rest]):
            for other in _COMPARISONS.get(type(op), ()):
                yield BugKind.COMPARISON, _with(expression, ops=[other(), *rest])
        case ast.BoolOp():
            yield BugKind.OPERATOR, _with(expression, op=ast.Or() if isinstance(expression.op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield BugKind.OPERATOR, operand
        case ast.BinOp():
            yield from _arithmetic(expression)
        case ast.IfExp():
            yield BugKind.SWAPPED, _with(expression, body=expression.orelse, orelse=expression.body)
        case ast.Call():
            yield from _calls(expression)
        case ast.Constant(value=bool() as flag) if isinstance(parent, ast.Assign):
            yield BugKind.OFF_BY_ONE, _with(expression, value=not flag)
        case ast.Constant(value=int() as number) if not isinstance(number, bool) and _counts(parent):
            yield BugKind.OFF_BY_ONE, _with(expression, value=number - 1 if number > 0 else number + 1)


def _counts(parent: ast.AST) -> bool:
    """Return whether a number below this node says where something starts or ends."""
    if isinstance(parent, ast.Call):
        return isinstance(parent.func, ast.Name) and parent.func.id == "range"
    return isinstance(parent, ast.Assign | ast.Compare | ast.Slice | ast.Tuple)


def _arithmetic(expression: ast.BinOp) -> Iterator[tuple[BugKind, ast.expr]]:
    if type(expression.op) in _OPERATORS and not isinstance(expression.left, ast.Constant | ast.JoinedStr | ast.List):
        yield BugKind.OPERATOR, _with(expression, op=_OPERATORS[type(expression.op)]())
    if isinstance(expression.op, ast.Add | ast.Sub) and isinstance(expression.right, ast.Constant):
        yield BugKind.OFF_BY_ONE, expression.left
    elif isinstance(expression.op, ast.Sub | ast.FloorDiv | ast.Mod):
        yield BugKind.SWAPPED, _with(expression, left=expression.right, right=expression.left)


def _calls(call: ast.Call) -> Iterator[tuple[BugKind, ast.expr]]:
    match call.func:
        case ast.Name(id=name) if name in _CALLS:
            yield BugKind.CALL, _with(call, func=_with(call.func, id=_CALLS[name]))
        case ast.Name(id="range"):
            stop = 0 if len(call.args) == 1 else 1
            args = [*call.args[:stop], _shifted(call.args[stop], -1), *call.args[stop + 1 :]]
            yield BugKind.OFF_BY_ONE, _with(call, args=args)
        case ast.Attribute(attr=name) if name in _METHODS:
            yield BugKind.CALL, _with(call, func=_with(call.func, attr=_METHODS[name]))
    for number, keyword in enumerate(call.keywords):
        if keyword.arg in ("key", "reverse"):
            yield BugKind.CALL, _with(call, keywords=[*call.keywords[:number], *call.keywords[number + 1 :]])


def _shifted(expression: ast.expr, by: int) -> ast.expr:
    match expression:
        case ast.Constant(value=int() as number):
            return _with(expression, value=number + by)
        case ast.BinOp(op=ast.Add() | ast.Sub(), right=ast.Constant()):
            return expression.left
    unit = ast.copy_location(ast.Constant(1), expression)
    return ast.copy_location(ast.BinOp(expression, ast.Add() if by > 0 else ast.Sub(), unit), expression)


def _with(node: ast.expr, **changes: Any) -> Any:
    """Return a copy of a node with some fields changed."""
    twin = copy(node)
    for name, value in changes.items():
        setattr(twin, name, value)
    return twin
