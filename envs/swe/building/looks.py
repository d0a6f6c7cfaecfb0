"""Finds the expressions that a test checks, by value or exception, each with the code before it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from agentgym.envs.swe.building.inlining import is_docstring
from agentgym.tasks.swe.mutation.view import dotted

Look = tuple[list[ast.stmt], ast.expr]


def looks(body: Sequence[ast.stmt]) -> Iterator[Look]:
    """Yield each expression that the body of a test checks, after the statements before it.

    Args:
        body: The body, which is changed in place.
    """
    whole = _WithoutSelf().visit(_Apart().visit(ast.Module(body=list(body), type_ignores=[])))
    yield from _looks([], ast.fix_missing_locations(whole).body)


def _looks(setup: Sequence[ast.stmt], body: Sequence[ast.stmt]) -> Iterator[Look]:
    """Yield the checked expressions, each with the statements before it."""
    before = list(setup)
    for item in body:
        if is_docstring(item) or isinstance(item, ast.Pass):
            continue
        if isinstance(item, ast.Assert):
            yield from ((list(before), look) for look in _observed(item.test))
            continue
        if isinstance(item, ast.With) and _is_raises(item):
            *lines, last = item.body
            if isinstance(last, ast.Expr | ast.Assign):
                yield [*before, *lines], last.value
            continue
        if isinstance(item, ast.Expr):
            yield from ((list(before), look) for look in _checked(item.value))
            if dotted(getattr(item.value, "func", item)).startswith("self.assert"):
                continue
            yield list(before), item.value
        elif isinstance(item, ast.Assign) and not isinstance(item.value, ast.Constant):
            yield list(before), item.value
        elif isinstance(item, ast.With):
            yield from _looks(before, item.body) if not item.items[0].optional_vars else ()
        before.append(_Printing().visit(item))


def _checked(call: ast.expr) -> Iterator[ast.expr]:
    """Yield the expression that a method such as `assertEqual` or `assertRaises` checks."""
    if not isinstance(call, ast.Call) or not dotted(call.func).startswith("self.assert") or not call.args:
        return
    if dotted(call.func) != "self.assertRaises":
        yield call.args[0]
    elif len(call.args) > 1:
        yield ast.Call(func=call.args[1], args=call.args[2:], keywords=call.keywords)


def _observed(test: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions that an assertion checks, the most informative first."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        sides = [
            side
            for side in (test.left, test.comparators[0])
            if any(isinstance(n, ast.Call | ast.Attribute | ast.Subscript) for n in ast.walk(side))
        ]
        if isinstance(test.ops[0], ast.Eq | ast.Is):
            names = [side for side in (test.left,) if isinstance(side, ast.Name)]
            yield from [
                side for side in [*names, *sides] if not dotted(getattr(side, "func", side)).startswith("pytest.")
            ]
        if len(sides) == 2 or not isinstance(test.ops[0], ast.Eq | ast.Is):
            yield test
        return
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield test.operand
    elif isinstance(test, ast.BoolOp):
        yield from test.values
    else:
        yield test


def _is_raises(node: ast.With) -> bool:
    call = node.items[0].context_expr
    return isinstance(call, ast.Call) and dotted(call.func).endswith(("raises", "assertRaises", "assertRaisesRegex"))


class _Printing(ast.NodeTransformer):
    """Replaces assertions in loops by printing the expressions that they check."""

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        """Print the first expression that an assertion checks."""
        expression = next(_observed(node.test))
        return ast.Expr(value=ast.Call(func=ast.Name(id="print", ctx=ast.Load()), args=[expression], keywords=[]))


class _WithoutSelf(ast.NodeTransformer):
    """Writes the attributes of a test's object as variables."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Return the variable."""
        self.generic_visit(node)
        own = isinstance(node.value, ast.Name) and node.value.id == "self" and not node.attr.startswith("assert")
        return ast.copy_location(ast.Name(id=node.attr, ctx=node.ctx), node) if own else node


class _Apart(ast.NodeTransformer):
    """Writes `a, b = x, y` as two assignments, where neither value needs the other name."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        """Return the assignments."""
        target, value = node.targets[0], node.value
        if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple) or len(node.targets) > 1:
            return node
        names = {item.id for item in target.elts if isinstance(item, ast.Name)}
        used = {item.id for item in ast.walk(value) if isinstance(item, ast.Name)}
        if len(names) != len(target.elts) or len(names) != len(value.elts) or names & used:
            return node
        pairs = zip(target.elts, value.elts, strict=True)
        return [ast.copy_location(ast.Assign(targets=[name], value=item), node) for name, item in pairs]
