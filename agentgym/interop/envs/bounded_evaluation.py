"""Checks and bounds for model text that another package's grader evaluates as Python.

A grader that calls `eval`, or SymPy's `parse_expr`, which calls it too, runs the model's text with the rights of this
process. So only text whose every part is known to be harmless may reach it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from agentgym.base.syntax import parse

_LONGEST_FORMULA = 2_000
_MOST_DIGITS = 30
_HIGHEST_POWER = 100
"""Maximum exponent in a formula; exponents of nested powers are multiplied."""
_POWER_OF_FUNCTION = 5
"""A function call counts as this power, since towers such as `exp(exp(exp(9)))` grow as fast."""
_FUNCTIONS = frozenset(
    [
        "Abs",
        "abs",
        "acos",
        "acot",
        "asin",
        "atan",
        "cos",
        "cosh",
        "cot",
        "csc",
        "exp",
        "ln",
        "log",
        "sec",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "acosh",
        "asinh",
        "atanh",
    ]
)
_VALUES = (ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.expr_context)
_SIGNS = (ast.UnaryOp, ast.UAdd, ast.USub)


def is_harmless_value(text: str) -> bool:
    """Whether `eval` of a text can only make lists, texts and numbers, or fail (text that is not Python is harmless).

    Names are refused, since the grader's variables hold the right answer; names in capitals count as plain text.
    """
    tree = _expression(text)
    return tree is None or all(map(_is_value, ast.walk(tree.body)))


def _is_value(part: ast.AST) -> bool:
    return part.id.isupper() if isinstance(part, ast.Name) else isinstance(part, (*_VALUES, *_SIGNS))


def is_harmless_formula(text: str) -> bool:
    """Whether SymPy's `parse_expr` of a text can only make a formula of modest size with the usual functions.

    Text that is not Python is refused, since SymPy turns some of it into Python, such as `9!`.
    """
    tree = _expression(text) if len(text) <= _LONGEST_FORMULA else None
    return tree is not None and _power_of(tree.body) <= _HIGHEST_POWER


def _expression(text: str) -> ast.Expression | None:
    try:
        return parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


_TOO_MUCH = _HIGHEST_POWER + 1.0


def _power_of(part: ast.expr) -> float:
    """Return the highest power in a formula, at least 1; `_TOO_MUCH` if a part of it is not harmless."""
    match part:
        case ast.Constant(value=bool() | complex()):
            return _TOO_MUCH
        case ast.Constant(value=int() | float() as number):
            return 1.0 if abs(number) < 10**_MOST_DIGITS else _TOO_MUCH
        case ast.Name(id=name):
            return 1.0 if name.isalnum() else _TOO_MUCH
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=inner):
            return _power_of(inner)
        case ast.BinOp(left, ast.Pow(), right):
            return _power_of(left) * max(1.0, _exponent(right))
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right):
            return max(_power_of(left), _power_of(right))
        case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]) if name in _FUNCTIONS:
            return _POWER_OF_FUNCTION * _power_of(inner)
        case _:
            return _TOO_MUCH


def _exponent(part: ast.expr) -> float:
    """Return the size of an exponent: a number, a fraction or a name."""
    match part:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return float(abs(number)) if abs(number) <= _HIGHEST_POWER else _TOO_MUCH
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _exponent(inner)
        case ast.BinOp(above, ast.Div(), ast.Constant(value=int(below))) if below:
            return _exponent(above)
        case ast.Name():
            return _power_of(part)
        case _:
            return _TOO_MUCH


class TooMuchWork(BaseException):
    """The code made too many calls. Not an `Exception`, which graders would catch and treat as a wrong answer."""


@contextmanager
def bounded_work(most_calls: int) -> Iterator[None]:
    """Stop the block after `most_calls` calls of Python functions in this thread.

    Counting calls instead of seconds makes the limit independent of the machine and its load.

    Raises:
        TooMuchWork: The block exceeded the limit.
    """
    before = sys.gettrace()
    sys.settrace(_counting(most_calls))
    try:
        yield
    finally:
        sys.settrace(before)


def _counting(calls_left: int) -> Callable[[FrameType, str, Any], None]:
    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls_left
        calls_left -= 1
        if calls_left < 0:
            raise TooMuchWork

    return count
