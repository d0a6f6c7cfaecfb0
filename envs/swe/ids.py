"""Parses pytest node ids, and finds the functions in a test module that they name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef
Place = tuple[str, str, str]
"""Path, classes and name of a test function."""


@dataclass(frozen=True)
class NodeId:
    """`path::Class::name[case]`, in parts."""

    path: str
    scope: str
    """Names of the classes around the function, joined by `::`; empty for a function of the module."""
    name: str
    case: str
    """The suffix that parametrisation added, with its brackets, or an empty text."""

    @classmethod
    def of(cls, text: str) -> NodeId:
        """Parse an id."""
        head, bracket, rest = text.partition("[")
        path, *scope = head.split("::")
        name = scope.pop() if scope else ""
        return cls(path, "::".join(scope), name, bracket + rest)

    @property
    def place(self) -> Place:
        """The function, whatever the case."""
        return self.path, self.scope, self.name

    def __str__(self) -> str:
        return "::".join(part for part in (self.path, self.scope, self.name) if part) + self.case


@dataclass(frozen=True)
class TestFunction:
    """A test function and its place in its module."""

    __test__ = False

    scope: str
    node: Function
    siblings: list[ast.stmt]
    """The body of the module or class that it is part of."""
    inherits: bool
    """Whether its class has a base: it may be a unittest class, whose tests run in the order of their names."""


def test_functions(module: ast.Module) -> Iterator[TestFunction]:
    """Yield the functions and methods that pytest or unittest would collect as tests, in order."""
    yield from _in_body(module.body, "", False)


test_functions.__test__ = False  # type: ignore[attr-defined]


def _in_body(body: list[ast.stmt], scope: str, inherits: bool) -> Iterator[TestFunction]:
    for node in list(body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield TestFunction(scope, node, body, inherits)
        elif isinstance(node, ast.ClassDef):
            yield from _in_body(node.body, f"{scope}::{node.name}" if scope else node.name, bool(node.bases))
