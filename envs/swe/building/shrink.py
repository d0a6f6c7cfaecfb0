"""Makes snippets shorter: each step removes one thing, and the caller keeps the snippets that still show the bug."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from agentgym.envs.swe.building.snippet import Snippet

_MOST = 40
_PARTS = ("elts", "keywords", "body", "values", "generators")


def shorter(snippet: Snippet) -> Iterator[Snippet]:
    """Yield the snippets that lack one statement, one element of a list, or one keyword of a call."""
    for place in range(len(snippet.setup)):
        yield snippet.but([*snippet.setup[:place], *snippet.setup[place + 1 :]])
    yield from _put_in(snippet)
    for number in range(_MOST):
        setup, last = copy.deepcopy((snippet.setup, snippet.last))
        if not _delete_part(list(setup), last, number):
            return
        yield snippet.but(setup, last)


def _delete_part(setup: list[ast.stmt], last: ast.expr, number: int) -> bool:
    """Delete the part with a number, counted through the code, in place; return whether it exists."""
    for item in [*setup, last]:
        for node in ast.walk(item):
            for parts in _lists(node):
                if number < len(parts):
                    del parts[number]
                    if isinstance(node, ast.Dict):
                        del node.keys[number]
                    return True
                number -= len(parts)
    return False


def _lists(node: ast.AST) -> Iterator[list[ast.AST]]:
    """Yield the lists of a node whose items may be deleted."""
    if isinstance(node, ast.List | ast.Set | ast.Tuple) and len(node.elts) > 1 + isinstance(node, ast.Tuple):
        yield node.elts  # type: ignore[misc]
    elif isinstance(node, ast.Dict) and len(node.values) > 1:
        yield node.values  # type: ignore[misc]
    elif isinstance(node, ast.Call) and node.keywords:
        yield node.keywords  # type: ignore[misc]
    elif isinstance(node, ast.For | ast.With | ast.FunctionDef | ast.AsyncFunctionDef) and len(node.body) > 1:
        yield node.body  # type: ignore[misc]


def _put_in(snippet: Snippet) -> Iterator[Snippet]:
    """Yield the snippet with a name that is used once replaced by its value."""
    for place, item in enumerate(snippet.setup):
        if not isinstance(item, ast.Assign) or not isinstance(item.targets[0], ast.Name) or len(item.targets) > 1:
            continue
        if ast.unparse(item.value) in ("[]", "{}", "set()"):  # made to be filled
            continue
        name, rest = item.targets[0].id, snippet.but(snippet.setup[place + 1 :])
        uses = [node for node in rest.walk() if isinstance(node, ast.Name) and node.id == name]
        if len(uses) != 1 or not isinstance(uses[0].ctx, ast.Load) or len(ast.unparse(item.value)) > 60:
            continue
        put = _Put(name, item.value)
        after = [put.visit(copy.deepcopy(statement)) for statement in rest.setup]
        yield snippet.but([*snippet.setup[:place], *after], put.visit(copy.deepcopy(rest.last)))


class _Put(ast.NodeTransformer):
    def __init__(self, name: str, value: ast.expr):
        self._name, self._value = name, value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self._value) if node.id == self._name else node
