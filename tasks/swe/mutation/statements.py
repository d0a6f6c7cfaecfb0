"""Operators on statements and blocks: removed, moved, dropped, emptied. Each yields edits and a note."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agentgym.tasks.swe.mutation.model import Edit
from agentgym.tasks.swe.mutation.view import FunctionNode, SourceView, dotted

Found = Iterator[tuple[list[Edit], str]]
_QUIET = ("warn", "debug", "info", "warning", "log", "print", "super().__init__")


def statement_removed(view: SourceView, node: ast.AST) -> Found:
    """A call, a deletion or a change of a plain variable is left out."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        if dotted(node.value.func).rpartition(".")[2] in _QUIET or view.text(node).startswith(_QUIET):
            return
        yield view.remove(node), f"removed {view.text(node)!r}"
    elif isinstance(node, ast.Delete) or (isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)):
        yield view.remove(node), f"removed {view.text(node)!r}"


def state_update_removed(view: SourceView, node: ast.AST) -> Found:
    """An assignment to an attribute or to an item of a container is left out."""
    if isinstance(node, ast.Assign | ast.AugAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        function = view.function(node)
        if isinstance(target, ast.Attribute | ast.Subscript) and function and function.name != "__init__":
            yield view.remove(node), f"removed {view.text(node)!r}"


def guard_removed(view: SourceView, node: ast.AST) -> Found:
    """`if wrong: raise ...` is left out."""
    if _is_guard(view, node, ast.Raise):
        yield view.remove(node), "guard removed"  # type: ignore[arg-type]


def early_exit_removed(view: SourceView, node: ast.AST) -> Found:
    """`if special: return ...` (or `continue`, `break`) is left out; so are checks for `None`."""
    if _is_guard(view, node, ast.Return | ast.Continue | ast.Break):
        yield view.remove(node), "early exit removed"  # type: ignore[arg-type]


def branch_dropped(view: SourceView, node: ast.AST) -> Found:
    """An `elif` or `else` branch, or a whole small `if`, is forgotten."""
    if not isinstance(node, ast.If):
        return
    if node.orelse and view.alone_on_lines(node):
        start, end = view.span(node.body[-1])[1], view.span(node.orelse[-1])[1]
        rest = node.orelse[0]
        if len(node.orelse) == 1 and isinstance(rest, ast.If) and _is_elif(view, rest) and rest.orelse:
            # Only this elif goes; what follows it stays.
            end = view.span(rest.body[-1])[1]
        yield [Edit(start, end, "")], "branch dropped"
    elif not node.orelse and not _is_elif(view, node) and not _leaves(node.body[-1]):
        yield view.remove(node), "if dropped"


def else_always(view: SourceView, node: ast.AST) -> Found:
    """A block under a condition is run always: the `if` line becomes `if True`."""
    if isinstance(node, ast.If) and not node.orelse and not _leaves(node.body[-1]) and not _is_elif(view, node):
        yield [view.replace(node.test, "True")], "condition ignored"


def returns_nothing(view: SourceView, node: ast.AST) -> Found:
    """`return value` returns `None`, or the last expression is computed and not returned."""
    if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        if isinstance(node.value, ast.Call | ast.Name | ast.Attribute):
            start = view.span(node)[0]
            yield [Edit(start, view.span(node.value)[0], "")], "return forgotten"
        else:
            yield [view.replace(node.value, "None")], "returns None"


def return_too_early(view: SourceView, node: ast.AST) -> Found:
    """The `return` after a loop is moved into it."""
    if not isinstance(node, ast.Return) or node.value is None or not view.alone_on_lines(node):
        return
    block = view.block(node)
    before = block[block.index(node) - 1] if node in block and block.index(node) else None
    if isinstance(before, ast.For | ast.While | ast.AsyncFor) and not before.orelse and node.lineno == node.end_lineno:
        inner = view.indent(before.body[-1])
        start = view.line_span(node, node)[0]
        if inner:
            yield [Edit(start, start + len(view.indent(node)), inner)], "return inside the loop"


def break_continue_swapped(view: SourceView, node: ast.AST) -> Found:
    """`break` becomes `continue` and the other way round."""
    if isinstance(node, ast.Break | ast.Continue):
        word = "continue" if isinstance(node, ast.Break) else "break"
        yield [view.replace(node, word)], f"-> {word}"


def statements_swapped(view: SourceView, node: ast.AST) -> Found:
    """Two dependent statements are swapped."""
    if not isinstance(node, ast.Assign | ast.AugAssign | ast.Expr):
        return
    block = view.block(node)
    after = block[block.index(node) + 1] if node in block and block.index(node) + 1 < len(block) else None
    if not isinstance(after, ast.Assign | ast.AugAssign | ast.Expr) or view.is_frozen(after):
        return
    if not _related(node, after) or not view.alone_on_lines(node) or not view.alone_on_lines(after):
        return
    yield [view.replace(node, view.text(after)), view.replace(after, view.text(node))], "order swapped"


def handler_dropped(view: SourceView, node: ast.AST) -> Found:
    """An `except` block is forgotten, or re-raises if it is the only one."""
    if not isinstance(node, ast.ExceptHandler) or view.text(node.body[-1]) == "raise":
        return
    handlers = view.parents[node].handlers  # type: ignore[attr-defined]
    if len(handlers) > 1:
        start, end = view.line_span(node.body[0], node.body[-1])
        first = view.offset(node.lineno, 0)
        if start > first:
            yield [Edit(first, end, "")], "except block dropped"
    else:
        start, end = view.span(node.body[0])[0], view.span(node.body[-1])[1]
        yield [Edit(start, end, "raise")], "error let through"


def body_removed(view: SourceView, node: ast.AST) -> Found:
    """The body of a function is not there: it has to be written again."""
    if not isinstance(node, FunctionNode) or any(
        isinstance(item, ast.Yield | ast.YieldFrom) for item in ast.walk(node)
    ):
        return
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    if node.name.startswith("__") or not body or not _long_enough(body) or not view.alone_on_lines(body[0]):
        return
    yield [Edit(view.span(body[0])[0], view.span(body[-1])[1], "raise NotImplementedError")], "body removed"


def loop_skips(view: SourceView, node: ast.AST) -> Found:
    """A loop over a sequence leaves out its first or last element."""
    if isinstance(node, ast.For) and isinstance(node.iter, ast.Name | ast.Attribute):
        text = view.text(node.iter)
        yield [view.replace(node.iter, f"list({text})[1:]")], "first element left out"
        yield [view.replace(node.iter, f"list({text})[:-1]")], "last element left out"


def _is_guard(view: SourceView, node: ast.AST, kind: object) -> bool:
    if not isinstance(node, ast.If) or node.orelse or len(node.body) > 2 or _is_elif(view, node):
        return False
    return isinstance(node.body[-1], kind)  # type: ignore[arg-type]


def _is_elif(view: SourceView, node: ast.If) -> bool:
    return view.source.startswith("elif", view.span(node)[0])


def _leaves(node: ast.stmt) -> bool:
    return isinstance(node, ast.Return | ast.Raise | ast.Continue | ast.Break)


def _long_enough(body: list[ast.stmt]) -> bool:
    statements = sum(isinstance(item, ast.stmt) for top in body for item in ast.walk(top))
    return 2 <= statements <= 25


def _written(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.Assign):
        return {name for target in node.targets for name in _roots(target)}
    if isinstance(node, ast.AugAssign):
        return _roots(node.target)
    # A method call may change the object that it is called on.
    call = node.value if isinstance(node, ast.Expr) else None
    return _roots(call.func.value) if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else set()


def _roots(node: ast.AST) -> set[str]:
    return {dotted(item) or "" for item in ast.walk(node) if isinstance(item, ast.Name | ast.Attribute)} - {"self", ""}


def _related(first: ast.stmt, second: ast.stmt) -> bool:
    return bool(_written(first) & _roots(second) or _written(second) & _roots(first))
