"""Parsing Python where several threads may do it at once, as grading does.

Python 3.11 keeps one count of the depth of all syntax trees that are being made. Two threads that make some at the same
time can end in `SystemError: AST constructor recursion depth mismatch`.
"""

from __future__ import annotations

import ast
from threading import Lock
from typing import Any, Literal, overload

_ONE_AT_A_TIME = Lock()


@overload
def parse(source: str | bytes, *, mode: Literal["exec"] = "exec") -> ast.Module: ...
@overload
def parse(source: str | bytes, *, mode: Literal["eval"]) -> ast.Expression: ...
def parse(source: str | bytes, *, mode: Any = "exec") -> ast.AST:
    """Return the syntax tree of a text, as `ast.parse` does. Raises as that does."""
    with _ONE_AT_A_TIME:
        return ast.parse(source, mode=mode)
