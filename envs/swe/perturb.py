"""Changing one expectation of a test function so that no honest code can meet both it and the original.

Works on syntax trees; runs nothing. A `Site` is a place in a function that can be changed and how; the same site is
changed to other values by other generators.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef

_UNLIKELY = ("BufferError", "ChildProcessError", "IndentationError", "NotADirectoryError", "StopAsyncIteration")
"""Exceptions that no test expects: what a canary waits for instead of the right one."""
_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPPOSITE_METHODS = {
    "assertTrue": "assertFalse", "assertIn": "assertNotIn", "assertIs": "assertIsNot",
    "assertIsNone": "assertIsNotNone", "assertIsInstance": "assertNotIsInstance",
}  # fmt: skip
_OPPOSITE_METHODS |= {two: one for one, two in _OPPOSITE_METHODS.items()}
_EQUAL_METHODS = ("assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual")


@dataclass(frozen=True, order=True)
class Site:
    """One expectation of a test function."""

    style: str
    """`literal`, `rebound`, `wrapped`, `opposite`, `raises` or `ending`."""
    number: int
    """Which of the function's nodes, in the order of `ast.walk`."""


def sites(function: Function) -> list[Site]:
    """Return the expectations that can be changed, those that tell most first."""
    own = _own_names(function)
    found = [Site(style, number) for number, node in enumerate(ast.walk(function)) for style in _styles(node, own)]
    found.append(Site("ending", 0))
    return sorted(found, key=lambda site: (_ORDER.index(site.style), -site.number))


def perturbed(function: Function, site: Site, rng: random.Random) -> Function:
    """Return a copy of the function with one expectation changed."""
    changed = copy.deepcopy(function)
    if site.style == "ending":
        changed.body.append(_false_assertion(rng))
        return changed
    node = next(node for number, node in enumerate(ast.walk(changed)) if number == site.number)
    if site.style == "rebound":
        _rebind(changed, node, rng)
    else:
        _CHANGES[site.style](node, rng)
    return changed


def _styles(node: ast.AST, own: dict[str, bool]) -> Iterator[str]:
    pair = _compared(node)
    if pair is not None:
        literal = any(_constants(side) for side in pair)
        yield "literal" if literal else "rebound" if _expected_name(pair, own) else "wrapped"
    elif isinstance(node, ast.Assert) or _method(node) in _OPPOSITE_METHODS:
        yield "opposite"
    elif _expected_exception(node) is not None:
        yield "raises"


def _compared(node: ast.AST) -> list[ast.expr] | None:
    """Return both sides of an equality that a node asserts."""
    if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare) and len(node.test.ops) == 1:
        return [node.test.left, node.test.comparators[0]] if isinstance(node.test.ops[0], ast.Eq) else None
    if isinstance(node, ast.Call) and _method(node) in _EQUAL_METHODS and len(node.args) >= 2:
        return node.args[:2]
    return None


def _set_compared(node: ast.AST, index: int, value: ast.expr) -> None:
    if isinstance(node, ast.Call):
        node.args[index] = value
    elif isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare):
        if index == 0:
            node.test.left = value
        else:
            node.test.comparators[0] = value


def _method(node: ast.AST) -> str:
    """Return the name of the method of `self` that a node calls."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        return node.func.attr if node.func.value.id == "self" else ""
    return ""


def _expected_exception(node: ast.AST) -> ast.Call | None:
    if not isinstance(node, ast.Call) or not node.args:
        return None
    raises = isinstance(node.func, ast.Attribute) and node.func.attr == "raises"
    return node if raises or _method(node) == "assertRaises" else None


def _constants(side: ast.expr) -> list[ast.Constant]:
    """Return the constants that a side consists of; none if it is computed."""
    if isinstance(side, ast.Constant):
        return [side] if _changeable(side.value) else []
    if isinstance(side, ast.UnaryOp) and isinstance(side.operand, ast.Constant):
        return [side.operand] if isinstance(side.operand.value, int | float) else []
    if isinstance(side, ast.List | ast.Tuple | ast.Set):
        parts = side.elts
    elif isinstance(side, ast.Dict):
        parts = side.values
    else:
        return []
    return [constant for part in parts for constant in _constants(part)]


def _changeable(value: object) -> bool:
    return isinstance(value, bool | int | float | str | bytes) and (not isinstance(value, float) or value == value)


def _change_literal(node: ast.AST, rng: random.Random) -> None:
    sides = [found for side in _compared(node) or () if (found := _constants(side))]
    # The expected side is the simpler one more often than not; any will do.
    constant = rng.choice(sides[-1])
    constant.value = _other(constant.value, rng)


def _other(value: object, rng: random.Random) -> bool | int | float | str | bytes:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice((1, 2, 3, 7, 10))
    if isinstance(value, float):
        # Far enough for any tolerance that is meant to tell values apart.
        return value * 2 + rng.choice((1.5, 2.5, 4.0))
    if isinstance(value, bytes):
        return value + rng.choice((b"s", b"x", b"_", b"0"))
    text = str(value)
    at = rng.randrange(len(text) + 1)
    # No blank, no change of case: code that ignores them would be right to say that nothing changed.
    return text[:at] + rng.choice("abcdefghkmnpqrstuvwxyz") + text[at:]


def _wrap(node: ast.AST, rng: random.Random) -> None:
    """Expect a list with the expected value in it: what equals everything equals that too."""
    pair = _compared(node)
    if pair is None:
        return
    # A name or attribute alone is the expectation more often than a call is.
    index = 0 if isinstance(pair[1], ast.Call) and not isinstance(pair[0], ast.Call) else 1
    _set_compared(node, index, ast.List(elts=[pair[index], ast.Constant(rng.randrange(100))], ctx=ast.Load()))


def _own_names(function: Function) -> dict[str, bool]:
    """Return the function's own names, and whether each is a parameter."""
    parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    names = {node.id: False for node in ast.walk(function) if isinstance(node, ast.Name) and _is_stored(node)}
    return names | {parameter.arg: True for parameter in parameters if parameter.arg != "self"}


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _expected_name(pair: list[ast.expr], own: dict[str, bool]) -> str | None:
    """Return the name under which a comparison has the expected value: a parameter, or else what stands right."""
    names = [side.id for side in reversed(pair) if isinstance(side, ast.Name) and side.id in own]
    return next((name for name in names if own[name]), names[0] if names else None)


def _rebind(function: Function, node: ast.AST, rng: random.Random) -> None:
    """Give the expected value another one before it is compared: who reads it from the frame reads the wrong one."""
    pair = _compared(node)
    name = _expected_name(pair, _own_names(function)) if pair else None
    for parent in ast.walk(function):
        for body in (getattr(parent, field, None) for field in ("body", "orelse", "finalbody")):
            if name is None or not isinstance(body, list):
                continue
            for index, statement in enumerate(body):
                if isinstance(statement, ast.stmt) and _holds(statement, node):
                    value = ast.List([ast.Name(name, ast.Load()), ast.Constant(rng.randrange(100))], ast.Load())
                    body.insert(_first_use(body, index, name), ast.Assign([ast.Name(name, ast.Store())], value))
                    return


def _holds(statement: ast.stmt, node: ast.AST) -> bool:
    """Whether a simple statement is, or has in it, a node."""
    return statement is node or (isinstance(statement, ast.Expr) and statement.value is node)


def _first_use(body: list[ast.stmt], index: int, name: str) -> int:
    """Return the earliest place before a statement from which nothing else uses a name."""
    while index > 0 and not any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(body[index - 1])):
        index -= 1
    return index


def _turn_round(node: ast.AST, rng: random.Random) -> None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node.func.attr = _OPPOSITE_METHODS[node.func.attr]
        return
    if not isinstance(node, ast.Assert):
        return
    test = node.test
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _OPPOSITES:
        test.ops = [_OPPOSITES[type(test.ops[0])]()]
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        node.test = test.operand
    else:
        node.test = ast.UnaryOp(op=ast.Not(), operand=test)


def _change_exception(node: ast.AST, rng: random.Random) -> None:
    if isinstance(node, ast.Call):
        node.args[0] = ast.Name(id=rng.choice(_UNLIKELY), ctx=ast.Load())


def _false_assertion(rng: random.Random) -> ast.stmt:
    left, right = rng.sample(range(100), 2)
    return ast.Assert(test=ast.Compare(ast.Constant(left), [ast.Eq()], [ast.Constant(right)]), msg=None)


_CHANGES: dict[str, Callable[[ast.AST, random.Random], None]] = {
    "literal": _change_literal,
    "wrapped": _wrap,
    "opposite": _turn_round,
    "raises": _change_exception,
}
_ORDER = ("literal", "rebound", "wrapped", "opposite", "raises", "ending")
