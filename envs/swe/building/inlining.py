"""Puts arguments, helpers and fixtures of a test into its code, so that the code stands alone."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentgym.syntax import parse


class Replaced(ast.NodeTransformer):
    """Replaces names by expressions, and stars of names by the elements or keywords that they stand for."""

    def __init__(
        self,
        values: Mapping[str, ast.expr],
        elements: Mapping[str, Sequence[ast.expr]] | None = None,
        keywords: Mapping[str, Sequence[ast.keyword]] | None = None,
    ):
        self._values, self._elements, self._keywords = values, elements or {}, keywords or {}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a name that is read."""
        if not isinstance(node.ctx, ast.Load):
            return node
        if node.id in self._elements:
            return ast.Tuple(elts=[copy.deepcopy(item) for item in self._elements[node.id]], ctx=ast.Load())
        return copy.deepcopy(self._values.get(node.id, node))

    def visit_Starred(self, node: ast.Starred) -> ast.AST | list[ast.expr]:
        """Replace `*name` by its elements."""
        if isinstance(node.value, ast.Name) and node.value.id in self._elements:
            return [copy.deepcopy(item) for item in self._elements[node.value.id]]
        return self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST | list[ast.keyword]:
        """Replace `**name` by its keywords."""
        if node.arg is None and isinstance(node.value, ast.Name) and node.value.id in self._keywords:
            return [copy.deepcopy(item) for item in self._keywords[node.value.id]]
        return self.generic_visit(node)


@dataclass
class Helpers(ast.NodeTransformer):
    """Replaces calls of a module's one-line functions by their result."""

    functions: Mapping[str, ast.FunctionDef]
    used: set[str] = field(default_factory=set)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace a call, after those in its arguments."""
        self.generic_visit(node)
        helper = self.functions.get(node.func.id) if isinstance(node.func, ast.Name) else None
        return (inlined(helper, node) if helper else None) or node


class Unrolled(ast.NodeTransformer):
    """Replaces `[tuple(x) for x in ("ab", "cd")]` by the list that it makes."""

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        """Return the list, if every element is a text taken apart."""
        self.generic_visit(node)
        loop, parts = node.generators[0], getattr(node.generators[0].iter, "elts", [])
        texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        plain = len(node.generators) == 1 and not loop.ifs and parts and len(texts) == len(parts)
        if not plain or ast.unparse(node.elt) != f"tuple({ast.unparse(loop.target)})":
            return node
        return ast.copy_location(parse(repr([tuple(text) for text in texts]), mode="eval").body, node)


def value_of(function: ast.FunctionDef) -> ast.expr | None:
    """Return the expression that a function returns, if that is its only statement."""
    body = function.body[1:] if is_docstring(function.body[0]) else function.body
    if function.decorator_list or len(body) != 1 or not isinstance(body[0], ast.Return):
        return None
    return body[0].value


def inlined(function: ast.FunctionDef, call: ast.Call) -> ast.expr | None:
    """Return the expression that a call of a one-line function evaluates, or `None` if it cannot be inlined."""
    value, spec = value_of(function), function.args
    if value is None or spec.posonlyargs or spec.kwonlyargs:
        return None
    if any(isinstance(item, ast.Starred) for item in call.args) or any(item.arg is None for item in call.keywords):
        return None
    names = [item.arg for item in spec.args]
    arguments = dict(zip(names, call.args, strict=False))
    arguments |= {item.arg: item.value for item in call.keywords if item.arg in names}
    defaults = dict(zip(names[len(names) - len(spec.defaults) :], spec.defaults, strict=True))
    values = defaults | arguments
    if values.keys() != set(names) or any(_is_repeated(name, value) and not _is_small(values[name]) for name in names):
        return None
    rest = call.args[len(names) :]
    keywords = [item for item in call.keywords if item.arg not in names]
    if (rest and not spec.vararg) or (keywords and not spec.kwarg):
        return None
    elements = {spec.vararg.arg: rest} if spec.vararg else {}
    extra = {spec.kwarg.arg: keywords} if spec.kwarg else {}
    if any(isinstance(node, ast.Name) and node.id in extra for node in _without_keywords(value)):
        return None
    return Replaced(values, elements, extra).visit(copy.deepcopy(value))


def is_docstring(node: ast.AST) -> bool:
    """Whether a statement is only a constant."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _without_keywords(node: ast.AST) -> list[ast.AST]:
    """Return all nodes but the values of `**`."""
    stars = {id(item.value) for item in ast.walk(node) if isinstance(item, ast.keyword) and item.arg is None}
    return [item for item in ast.walk(node) if id(item) not in stars]


def _is_repeated(name: str, value: ast.expr) -> bool:
    return sum(isinstance(node, ast.Name) and node.id == name for node in ast.walk(value)) > 1


def _is_small(value: ast.expr) -> bool:
    return isinstance(value, ast.Name | ast.Constant)
