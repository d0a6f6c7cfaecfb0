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


class Bug(StrEnum):
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

    bug: Bug
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
    found: list[BugEdit] = []
    for node in ast.walk(tree):
        found += _node_edits(node)
        for field, held in ast.iter_fields(node):
            if isinstance(held, ast.expr):
                found += [BugEdit(bug, node, field, new) for bug, new in _replacements(held, node)]
            elif isinstance(held, list):
                found += _list_edits(node, field, held)
    return found


def _list_edits(node: ast.AST, field: str, held: list[Any]) -> Iterator[BugEdit]:
    for number, item in enumerate(held):
        if isinstance(item, ast.expr):
            for bug, new in _replacements(item, node):
                yield BugEdit(bug, node, field, [*held[:number], new, *held[number + 1 :]])
        elif isinstance(item, ast.If) and len(held) > 1 and isinstance(item.body[-1], ast.Return | ast.Continue):
            yield BugEdit(Bug.BRANCH, node, field, [*held[:number], *held[number + 1 :]])
        elif isinstance(item, ast.Continue):
            yield BugEdit(Bug.CALL, node, field, [*held[:number], ast.copy_location(ast.Break(), item)])


def _node_edits(node: ast.AST) -> Iterator[BugEdit]:
    match node:
        case ast.If(orelse=[_, *_]):
            yield BugEdit(Bug.BRANCH, node, "orelse", [])
        case ast.AugAssign(op=ast.Add() | ast.Sub()):
            yield BugEdit(Bug.OPERATOR, node, "op", _OPERATORS[type(node.op)]())
        case ast.comprehension(ifs=[_, *_]):
            yield BugEdit(Bug.BRANCH, node, "ifs", node.ifs[1:])
        case ast.Lambda(body=ast.Tuple(elts=[first, second])):
            yield BugEdit(Bug.SWAPPED, node.body, "elts", [second, first])
        case ast.Slice(lower=ast.expr() as lower, upper=None):
            yield BugEdit(Bug.OFF_BY_ONE, node, "lower", _shifted(lower, 1))


def _replacements(held: ast.expr, parent: ast.AST) -> Iterator[tuple[Bug, ast.expr]]:
    match held:
        case ast.Compare(ops=[op, *rest]):
            for other in _COMPARISONS.get(type(op), ()):
                yield Bug.COMPARISON, _with(held, ops=[other(), *rest])
        case ast.BoolOp():
            yield Bug.OPERATOR, _with(held, op=ast.Or() if isinstance(held.op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield Bug.OPERATOR, operand
        case ast.BinOp():
            yield from _arithmetic(held)
        case ast.IfExp():
            yield Bug.SWAPPED, _with(held, body=held.orelse, orelse=held.body)
        case ast.Call():
            yield from _calls(held)
        case ast.Constant(value=bool() as flag) if isinstance(parent, ast.Assign):
            yield Bug.OFF_BY_ONE, _with(held, value=not flag)
        case ast.Constant(value=int() as number) if not isinstance(number, bool) and _counts(parent):
            yield Bug.OFF_BY_ONE, _with(held, value=number - 1 if number > 0 else number + 1)


def _counts(parent: ast.AST) -> bool:
    """Return whether a number below this node says where something starts or ends."""
    if isinstance(parent, ast.Call):
        return isinstance(parent.func, ast.Name) and parent.func.id == "range"
    return isinstance(parent, ast.Assign | ast.Compare | ast.Slice | ast.Tuple)


def _arithmetic(held: ast.BinOp) -> Iterator[tuple[Bug, ast.expr]]:
    if type(held.op) in _OPERATORS and not isinstance(held.left, ast.Constant | ast.JoinedStr | ast.List):
        yield Bug.OPERATOR, _with(held, op=_OPERATORS[type(held.op)]())
    if isinstance(held.op, ast.Add | ast.Sub) and isinstance(held.right, ast.Constant):
        yield Bug.OFF_BY_ONE, held.left
    elif isinstance(held.op, ast.Sub | ast.FloorDiv | ast.Mod):
        yield Bug.SWAPPED, _with(held, left=held.right, right=held.left)


def _calls(held: ast.Call) -> Iterator[tuple[Bug, ast.expr]]:
    match held.func:
        case ast.Name(id=name) if name in _CALLS:
            yield Bug.CALL, _with(held, func=_with(held.func, id=_CALLS[name]))
        case ast.Name(id="range"):
            stop = 0 if len(held.args) == 1 else 1
            args = [*held.args[:stop], _shifted(held.args[stop], -1), *held.args[stop + 1 :]]
            yield Bug.OFF_BY_ONE, _with(held, args=args)
        case ast.Attribute(attr=name) if name in _METHODS:
            yield Bug.CALL, _with(held, func=_with(held.func, attr=_METHODS[name]))
    for number, keyword in enumerate(held.keywords):
        if keyword.arg in ("key", "reverse"):
            yield Bug.CALL, _with(held, keywords=[*held.keywords[:number], *held.keywords[number + 1 :]])


def _shifted(held: ast.expr, by: int) -> ast.expr:
    match held:
        case ast.Constant(value=int() as number):
            return _with(held, value=number + by)
        case ast.BinOp(op=ast.Add() | ast.Sub(), right=ast.Constant()):
            return held.left
    one = ast.copy_location(ast.Constant(1), held)
    return ast.copy_location(ast.BinOp(held, ast.Add() if by > 0 else ast.Sub(), one), held)


def _with(node: ast.expr, **changes: Any) -> Any:
    """Return a copy of a node with some fields changed."""
    twin = copy(node)
    for name, held in changes.items():
        setattr(twin, name, held)
    return twin
