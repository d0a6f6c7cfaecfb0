"""Operators on expressions: comparisons, logic, arithmetic, constants, bounds. Each yields edits and a note."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agentgym.tasks.swe.mutation.model import Edit
from agentgym.tasks.swe.mutation.view import FunctionNode, SourceView, dotted

Found = Iterator[tuple[list[Edit], str]]

_WORDS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Lt: ("<",), ast.LtE: ("<=",), ast.Gt: (">",), ast.GtE: (">=",), ast.Eq: ("==",), ast.NotEq: ("!=",),
    ast.Is: ("is",), ast.IsNot: ("is", "not"), ast.In: ("in",), ast.NotIn: ("not", "in"),
    ast.Add: ("+",), ast.Sub: ("-",), ast.Mult: ("*",), ast.Div: ("/",), ast.FloorDiv: ("//",), ast.Mod: ("%",),
    ast.BitAnd: ("&",), ast.BitOr: ("|",), ast.And: ("and",), ast.Or: ("or",),
}  # fmt: skip
_BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">", ">": "<", "in": "not in", "not in": "in"}
_ARITHMETIC = {"+": "-", "-": "+", "*": "+", "/": "//", "//": "%", "%": "//", "&": "|", "|": "&"}


def comparison_boundary(view: SourceView, node: ast.AST) -> Found:
    """`<` becomes `<=`, `>=` becomes `>`, and so on."""
    yield from _compare(view, node, _BOUNDARY)


def comparison_opposite(view: SourceView, node: ast.AST) -> Found:
    """`==` becomes `!=`, `<` becomes `>`, `in` becomes `not in`."""
    yield from _compare(view, node, _OPPOSITE)


def none_check_inverted(view: SourceView, node: ast.AST) -> Found:
    """`is None` becomes `is not None` and the other way round."""
    yield from _compare(view, node, {"is": "is not", "is not": "is"})


def _compare(view: SourceView, node: ast.AST, swaps: dict[str, str]) -> Found:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from _swap(view, node.left, node.comparators[0], _WORDS[type(node.ops[0])], swaps)


def arithmetic_operator(view: SourceView, node: ast.AST) -> Found:
    """`+` becomes `-`, `//` becomes `%`, `&` becomes `|`."""
    if isinstance(node, ast.BinOp) and type(node.op) in _WORDS and not _textual(node.left, node.right):
        yield from _swap(view, node.left, node.right, _WORDS[type(node.op)], _ARITHMETIC)


def augmented_assignment(view: SourceView, node: ast.AST) -> Found:
    """`+=` becomes `-=` or plain `=`."""
    if not isinstance(node, ast.AugAssign) or type(node.op) not in _WORDS:
        return
    word = _WORDS[type(node.op)][0]
    place = view.token(view.span(node.target)[1], view.span(node.value)[0], (f"{word}=",))
    if place is not None:
        yield [Edit(*place, "=")], f"{word}= -> ="
        if word in ("+", "-") and not _textual(node.value):
            yield [Edit(*place, f"{_ARITHMETIC[word]}=")], f"{word}= -> {_ARITHMETIC[word]}="


def and_or_swapped(view: SourceView, node: ast.AST) -> Found:
    """`a and b` becomes `a or b` and the other way round."""
    if not isinstance(node, ast.BoolOp):
        return
    word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    places = [
        view.token(view.span(left)[1], view.span(right)[0], (word,))
        for left, right in zip(node.values, node.values[1:], strict=False)
    ]
    if all(place is not None for place in places):
        yield [Edit(*place, other) for place in places if place is not None], f"{word} -> {other}"


def condition_part_dropped(view: SourceView, node: ast.AST) -> Found:
    """One operand of `and` or `or` is forgotten."""
    if isinstance(node, ast.BoolOp):
        for remaining, dropped in ((0, 1), (-1, -2)) if len(node.values) == 2 else ((-2, -1),):
            here, there = view.span(node.values[remaining]), view.span(node.values[dropped])
            edit = Edit(here[1], there[1], "") if here < there else Edit(there[0], here[0], "")
            yield [edit], f"dropped {view.text(node.values[dropped])!r}"


def not_removed(view: SourceView, node: ast.AST) -> Found:
    """`not x` becomes `x`."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        start = view.span(node)[0]
        yield [Edit(start, start + len("not "), "")], "not removed"


def condition_negated(view: SourceView, node: ast.AST) -> Found:
    """The condition of `if` or `while` is negated."""
    if isinstance(node, ast.If | ast.While) and isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
        yield [view.replace(node.test, f"not {view.text(node.test)}")], "condition negated"


def constant_off_by_one(view: SourceView, node: ast.AST) -> Found:
    """A whole number is one too large or one too small."""
    if not isinstance(node, ast.Constant) or type(node.value) is not int or not view.text(node).isdecimal():
        return
    if isinstance(view.parents.get(node), ast.Slice | ast.FormattedValue):
        return
    for value in (node.value + 1, node.value - 1):
        if value >= 0:
            yield [view.replace(node, str(value))], f"{node.value} -> {value}"


def flag_flipped(view: SourceView, node: ast.AST) -> Found:
    """`True` becomes `False` and the other way round."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool) and not _is_default(view, node):
        yield [view.replace(node, str(not node.value))], f"{node.value} -> {not node.value}"


def conditional_expression_swapped(view: SourceView, node: ast.AST) -> Found:
    """`a if c else b` becomes `b if c else a`."""
    if isinstance(node, ast.IfExp):
        yield [view.replace(node.body, view.text(node.orelse)), view.replace(node.orelse, view.text(node.body))], "swap"


def slice_bound(view: SourceView, node: ast.AST) -> Found:
    """A bound of a slice is off by one or forgotten."""
    if not isinstance(node, ast.Slice):
        return
    for bound, more in ((node.lower, "+ 1"), (node.upper, "- 1")):
        if bound is None:
            continue
        yield [view.replace(bound, "")], f"bound {view.text(bound)!r} dropped"
        if isinstance(bound, ast.Constant) and isinstance(bound.value, int):
            yield [view.replace(bound, str(bound.value + 1))], "bound off by one"
        elif isinstance(bound, ast.Name | ast.Attribute | ast.Call):
            yield [view.replace(bound, f"{view.text(bound)} {more}")], "bound off by one"


def loop_bound(view: SourceView, node: ast.AST) -> Found:
    """A `range` or `enumerate` begins or ends one off."""
    if not isinstance(node, ast.Call) or node.keywords or not isinstance(node.func, ast.Name):
        return
    if node.func.id == "enumerate" and len(node.args) == 1:
        end = view.span(node.args[0])[1]
        yield [Edit(end, end, ", 1")], "enumerate from 1"
    if node.func.id != "range" or not 1 <= len(node.args) <= 2:
        return
    start, last = view.span(node.args[0])[0], node.args[-1]
    text = view.text(last)
    if isinstance(last, ast.BinOp) and isinstance(last.op, ast.Add | ast.Sub) and text.endswith((" + 1", " - 1")):
        yield [view.replace(last, text[:-4])], f"range end {text!r} -> {text[:-4]!r}"
    else:
        yield [view.replace(last, f"{text} - 1")], "range ends early"
    if len(node.args) == 1:
        yield [Edit(start, start, "1, ")], "range begins late"


def default_value(view: SourceView, node: ast.AST) -> Found:
    """A parameter has another default value."""
    if not isinstance(node, ast.Constant) or not _is_default(view, node):
        return
    for other in _other_values(node.value):
        yield [view.replace(node, repr(other))], f"default {node.value!r} -> {other!r}"


def key_constant(view: SourceView, node: ast.AST) -> Found:
    """A string used as a key is replaced by another key of the module."""
    if not _is_key(view, node):
        return
    keys = sorted({str(item.value) for item in ast.walk(view.tree) if _is_key(view, item)})  # type: ignore[attr-defined]
    own = str(node.value)  # type: ignore[attr-defined]
    others = [key for key in keys if key != own and key.isprintable()]
    if others:
        nearest = min(others, key=lambda key: (abs(len(key) - len(own)), key))
        quote = view.text(node)[0]
        if quote in "'\"" and quote not in nearest and "\\" not in nearest:
            yield [view.replace(node, f"{quote}{nearest}{quote}")], f"key {own!r} -> {nearest!r}"


def wrong_variable(view: SourceView, node: ast.AST) -> Found:
    """A variable is read in place of another one of the same function."""
    function = view.function(node)
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or function is None:
        return
    parent = view.parents.get(node)
    if isinstance(parent, ast.Call) and parent.func is node:
        return
    names = _local_names(function, node.lineno)
    if node.id in names and len(names) > 1:
        place = names.index(node.id)
        other = names[place - 1] if place else names[1]
        yield [view.replace(node, other)], f"{node.id} -> {other}"


def await_removed(view: SourceView, node: ast.AST) -> Found:
    """`await` is forgotten."""
    if isinstance(node, ast.Await):
        yield [Edit(view.span(node)[0], view.span(node.value)[0], "")], "await removed"


def fallback_dropped(view: SourceView, node: ast.AST) -> Found:
    """`x if x is not None else y` becomes `x`."""
    if isinstance(node, ast.IfExp) and isinstance(node.test, ast.Compare):
        names = {view.text(part) for part in (node.test.left, *node.test.comparators)}
        if "None" in names:
            branch = node.body if isinstance(node.test.ops[0], ast.IsNot) else node.orelse
            yield [view.replace(node, view.text(branch))], "fallback for None dropped"


def _swap(view: SourceView, left: ast.AST, right: ast.AST, words: tuple[str, ...], swaps: dict[str, str]) -> Found:
    other = swaps.get(" ".join(words))
    place = view.token(view.span(left)[1], view.span(right)[0], words)
    if other is not None and place is not None:
        yield [Edit(*place, other)], f"{' '.join(words)} -> {other}"


def _textual(*nodes: ast.AST) -> bool:
    """Whether an operand is clearly text, a list or a set, where arithmetic operators have other meanings."""
    for node in nodes:
        if isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp):
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            return True
        if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in ("str", "join", "list", "repr"):
            return True
        if isinstance(node, ast.BinOp) and _textual(node.left, node.right):
            return True
    return False


def _is_default(view: SourceView, node: ast.AST) -> bool:
    parent = view.parents.get(node)
    return isinstance(parent, ast.arguments) and any(
        item is node for item in (*parent.defaults, *parent.kw_defaults) if item is not None
    )


def _other_values(value: object) -> list[object]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1]
    if isinstance(value, float):
        return [value * 10 if value else 1.0]
    if isinstance(value, str):
        return ["" if value else " "]
    return []


def _is_key(view: SourceView, node: ast.AST) -> bool:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or view.is_frozen(node):
        return False
    parent = view.parents.get(node)
    if isinstance(parent, ast.Subscript):
        return parent.slice is node
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.args[:1] == [node]:
        return parent.func.attr in ("get", "pop", "setdefault")
    return isinstance(parent, ast.Dict) and node in parent.keys


def _local_names(function: FunctionNode, line: int) -> list[str]:
    """Names that certainly have a value at `line`, in the order of assignment; never `self` or `cls`."""
    arguments = function.args
    names = [item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    for statement in function.body:
        if (statement.end_lineno or statement.lineno) >= line or not isinstance(statement, ast.Assign):
            continue
        names += [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return [name for name in dict.fromkeys(names) if name not in ("self", "cls", "_")]
