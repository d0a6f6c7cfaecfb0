"""Operators on calls: wrong arguments, wrong function, wrong exception. Each yields edits and a note."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from typing import TypeGuard

from agentgym.tasks.swe.mutation.model import Edit
from agentgym.tasks.swe.mutation.view import SourceView, dotted

Found = Iterator[tuple[list[Edit], str]]

_NEIGHBOURS = {
    "min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor",
    "startswith": "endswith", "endswith": "startswith", "lstrip": "rstrip", "rstrip": "lstrip", "strip": "rstrip",
    "upper": "lower", "lower": "upper", "find": "rfind", "rfind": "find", "index": "rindex", "ljust": "rjust",
    "rjust": "ljust", "partition": "rpartition", "rpartition": "partition", "split": "rsplit", "rsplit": "split",
    "union": "intersection", "intersection": "union", "append": "extend", "popleft": "pop", "appendleft": "append",
    "issubset": "issuperset", "bisect_left": "bisect_right", "bisect_right": "bisect_left", "heappop": "heappushpop",
    "match": "search", "fullmatch": "match", "search": "match", "extend": "append", "update": "setdefault",
    "discard": "add", "items": "keys", "values": "keys",
}  # fmt: skip
_EXCEPTIONS = {
    "KeyError": "IndexError", "IndexError": "KeyError", "ValueError": "TypeError", "TypeError": "ValueError",
    "AttributeError": "LookupError", "StopIteration": "ValueError", "OSError": "ValueError",
    "ZeroDivisionError": "ValueError", "OverflowError": "ValueError", "LookupError": "AttributeError",
    "RuntimeError": "ValueError", "NotImplementedError": "ValueError",
}  # fmt: skip
_STRICT = {"isinstance", "issubclass", "hasattr", "setattr", "super().__init__", "range"}
_COPIES = {"list", "dict", "set", "tuple", "copy", "deepcopy"}


def arguments_swapped(view: SourceView, node: ast.AST) -> Found:
    """Two arguments of a call are swapped."""
    if not _takes_any_arguments(node) or any(isinstance(item, ast.Starred) for item in node.args):
        return
    for left, right in zip(node.args, node.args[1:], strict=False):
        texts = view.text(left), view.text(right)
        if texts[0] != texts[1] and not any(
            isinstance(item, ast.GeneratorExp | ast.JoinedStr) for item in (left, right)
        ):
            yield [view.replace(left, texts[1]), view.replace(right, texts[0])], f"swapped {texts[0]!r}, {texts[1]!r}"


def argument_dropped(view: SourceView, node: ast.AST) -> Found:
    """A keyword argument, or the last positional one, is not passed."""
    if not _takes_any_arguments(node):
        return
    items = sorted((*node.args, *node.keywords), key=view.span)
    for before, item in itertools.pairwise(items):
        if isinstance(item, ast.keyword) and item.arg is not None:
            yield [Edit(view.span(before)[1], view.span(item)[1], "")], f"{item.arg} not passed"
    if len(items) == 1 and isinstance(items[0], ast.keyword) and items[0].arg is not None:
        yield [view.replace(items[0], "")], f"{items[0].arg} not passed"
    if len(items) > 1 and items[-1] in node.args and not isinstance(items[-1], ast.Starred):
        yield [Edit(view.span(items[-2])[1], view.span(items[-1])[1], "")], "last argument not passed"


def neighbouring_function(view: SourceView, node: ast.AST) -> Found:
    """A function is confused with a similar one: `min` for `max`, `startswith` for `endswith`."""
    if not isinstance(node, ast.Call):
        return
    name = dotted(node.func).rpartition(".")[2] or getattr(node.func, "attr", "")
    other = _NEIGHBOURS.get(name)
    if other is None or (isinstance(node.func, ast.Name) and name not in ("min", "max", "any", "all", "floor", "ceil")):
        return
    end = view.span(node.func)[1]
    if view.source[end - len(name) : end] == name:
        yield [Edit(end - len(name), end, other)], f"{name} -> {other}"


def sorting_dropped(view: SourceView, node: ast.AST) -> Found:
    """`sorted(x)` becomes `list(x)`; `reversed(x)` becomes `x`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
        return
    end = view.span(node.args[0])[1]
    if node.func.id == "sorted" and not isinstance(node.args[0], ast.GeneratorExp):
        edits = [view.replace(node.func, "list")]
        if node.keywords:
            edits.append(Edit(end, view.span(node.keywords[-1])[1], ""))
        yield edits, "sorted -> list"
    if node.func.id == "reversed":
        yield [view.replace(node, f"iter({view.text(node.args[0])})")], "reversed dropped"


def copy_dropped(view: SourceView, node: ast.AST) -> Found:
    """A copy is not made: `list(x)`, `dict(x)` or `x.copy()` becomes `x`."""
    if not isinstance(node, ast.Call) or node.keywords:
        return
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr == "copy" and not node.args:
        yield [view.replace(node, view.text(function.value))], "copy dropped"
    name = dotted(function).rpartition(".")[2]
    if name in _COPIES and len(node.args) == 1 and isinstance(node.args[0], ast.Name | ast.Attribute):
        yield [view.replace(node, view.text(node.args[0]))], f"{name}() dropped"


def exception_type(view: SourceView, node: ast.AST) -> Found:
    """Another exception is raised, or caught."""
    named: list[ast.expr] = []
    if isinstance(node, ast.Raise) and node.exc is not None:
        named = [node.exc.func if isinstance(node.exc, ast.Call) else node.exc]
    if isinstance(node, ast.ExceptHandler) and node.type is not None:
        named = list(node.type.elts) if isinstance(node.type, ast.Tuple) else [node.type]
    for item in named:
        other = _EXCEPTIONS.get(view.text(item)) or (_sibling(view, item) if isinstance(node, ast.Raise) else None)
        if other is not None:
            yield [view.replace(item, other)], f"{view.text(item)} -> {other}"


def caught_types_narrowed(view: SourceView, node: ast.AST) -> Found:
    """`except (A, B)` catches one of them only."""
    if isinstance(node, ast.ExceptHandler) and isinstance(node.type, ast.Tuple):
        for caught in node.type.elts[:2]:
            yield [view.replace(node.type, view.text(caught))], f"catches {view.text(caught)} only"


def _takes_any_arguments(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether the node is a call that would not be obviously wrong with other arguments."""
    return isinstance(node, ast.Call) and dotted(node.func) not in _STRICT


def _sibling(view: SourceView, item: ast.expr) -> str | None:
    """Another exception class that the same module raises, or a builtin one in place of the module's own."""
    raised = {
        view.text(node.exc.func)
        for node in ast.walk(view.tree)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name)
    }
    others = sorted(name for name in raised if name != view.text(item) and name.endswith("Error"))
    own = isinstance(item, ast.Name) and item.id.endswith("Error")
    return (others[0] if others else "RuntimeError") if own else None
