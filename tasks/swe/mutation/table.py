"""The table of operators: what each does, its family, and how hard its bugs are to find."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeGuard

from agentgym.base.choices import named
from agentgym.tasks.swe.mutation import expressions
from agentgym.tasks.swe.mutation.model import Edit
from agentgym.tasks.swe.mutation.view import FunctionNode, SourceView, dotted

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


@dataclass(frozen=True)
class Operator:
    """One kind of bug."""

    name: str
    family: str
    """Bugs of one family in one function count as the same task."""
    weight: float
    """From 1 (obvious at a glance) to 4 (code has to be written)."""
    find: Callable[[SourceView, ast.AST], Iterator[tuple[list[Edit], str]]]
    """Yields the edits and a note for each way of making the bug at a node."""


def _operators() -> Iterator[Operator]:
    rows = (
        ("comparison", 1.5, expressions.comparison_boundary),
        ("comparison", 1.0, expressions.comparison_opposite),
        ("comparison", 1.0, expressions.none_check_inverted),
        ("arithmetic", 1.5, expressions.arithmetic_operator),
        ("arithmetic", 1.5, expressions.augmented_assignment),
        ("logic", 1.5, expressions.and_or_swapped),
        ("logic", 2.0, expressions.condition_part_dropped),
        ("logic", 1.0, expressions.not_removed),
        ("logic", 1.0, expressions.condition_negated),
        ("constant", 1.5, expressions.constant_off_by_one),
        ("constant", 1.5, expressions.flag_flipped),
        ("constant", 1.5, expressions.default_value),
        ("constant", 2.0, expressions.key_constant),
        ("bound", 1.5, expressions.slice_bound),
        ("bound", 1.5, expressions.loop_bound),
        ("bound", 1.5, loop_skips),
        ("logic", 1.5, expressions.conditional_expression_swapped),
        ("variable", 2.0, expressions.wrong_variable),
        ("call", 1.5, expressions.await_removed),
        ("missing case", 2.0, expressions.fallback_dropped),
        ("call", 1.5, arguments_swapped),
        ("call", 2.5, argument_dropped),
        ("call", 1.5, neighbouring_function),
        ("call", 2.0, sorting_dropped),
        ("call", 2.5, copy_dropped),
        ("exception", 1.5, exception_type),
        ("exception", 2.0, caught_types_narrowed),
        ("exception", 2.5, handler_dropped),
        ("missing statement", 2.5, statement_removed),
        ("missing statement", 2.5, state_update_removed),
        ("missing case", 2.5, guard_removed),
        ("missing case", 2.5, early_exit_removed),
        ("missing case", 3.0, branch_dropped),
        ("missing case", 2.0, else_always),
        ("flow", 1.5, returns_nothing),
        ("flow", 1.5, return_too_early),
        ("flow", 1.5, break_continue_swapped),
        ("flow", 2.5, statements_swapped),
        ("body", 4.0, body_removed),
    )
    for family, weight, find in rows:
        yield Operator(name=find.__name__, family=family, weight=weight, find=find)


OPERATORS: tuple[Operator, ...] = tuple(_operators())
"""All operators; reproducible draws depend on their order."""

_BY_NAME = {operator.name: operator for operator in OPERATORS}


def operator_named(name: str) -> Operator:
    """Return the operator of that name. Raises `UsageError` naming similar ones."""
    return named("mutation operator", name, _BY_NAME)
