"""Reads tests: finds the snippets that show the expressions a test checks. Runs nothing."""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agentgym.base.syntax import parse
from agentgym.envs.swe.building.snippet import Import, Snippet, imports_of
from agentgym.tasks.swe.mutation.view import FunctionNode, dotted


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


_MAX_CASES = 12
_MAX_STATEMENTS = 30


def find_test(tree: ast.Module, test: str) -> FunctionNode | None:
    """Return the function of a pytest node id, searched in its class first, then in its base classes."""
    parts = test.partition("[")[0].split("::")[1:]
    if not parts:
        return None
    classes = {item.name: item for item in tree.body if isinstance(item, ast.ClassDef)}
    scopes: list[ast.Module | ast.ClassDef] = [tree] if len(parts) == 1 else _with_bases(classes, parts[0])
    for scope in scopes:
        for item in scope.body:
            if isinstance(item, FunctionNode) and item.name == parts[-1]:
                return item
    return None


def snippets_of(test: str, source: str, exported: Sequence[str], package: str) -> list[Snippet]:
    """Return the snippets of a test, in the order of its code.

    Args:
        test: Its pytest node id.
        source: The text of its file.
        exported: Names that the package exports.
        package: The import name of the package.
    """
    try:
        tree = parse(source)
    except SyntaxError:
        return []
    function = find_test(tree, test)
    if not isinstance(function, ast.FunctionDef):
        return []
    module = _Module(tree, imports_of(tree, exported, package))
    snippets: list[Snippet] = []
    for values in _cases(function):
        body = [Replaced(values).visit(copy.deepcopy(item)) for item in function.body]
        lines = [*_set_up(tree, function), *_fixtures(tree, function), *body]
        for setup, last in looks(lines):
            snippets += [module.complete(setup, look) for look in (*module.inside(last), last)]
    return [item for item in snippets if len(item.setup) <= _MAX_STATEMENTS]


@dataclass(frozen=True)
class _Module:
    """The module of a test, whose definitions and imports the test needs."""

    tree: ast.Module
    imports: tuple[Import, ...]

    def inside(self, look: ast.expr) -> Sequence[ast.expr]:
        """Return the argument of a one-line helper of the module: it is as informative as the helper's result."""
        if isinstance(look, ast.Call) and isinstance(look.func, ast.Name) and look.func.id in self._helpers():
            return look.args if len(look.args) == 1 and isinstance(look.args[0], ast.Call) else ()
        return ()

    def complete(self, setup: Sequence[ast.stmt], last: ast.expr) -> Snippet:
        """Return the code with the module's definitions that it uses; one-line helpers are inlined."""
        replace, unroll = Helpers(self._helpers()), Unrolled()
        lines = [unroll.visit(replace.visit(copy.deepcopy(item))) for item in setup]
        snippet = Snippet(tuple(lines), unroll.visit(replace.visit(copy.deepcopy(last))), self.imports)
        own = {name: item for item in self.tree.body for name in _defined(item) if not name.startswith("test")}
        needed: dict[str, ast.stmt] = {}
        waiting = [snippet.names & own.keys()]
        while waiting:
            for name in sorted(waiting.pop() - needed.keys()):
                needed[name] = replace.visit(copy.deepcopy(own[name]))
                names = {node.id for node in ast.walk(needed[name]) if isinstance(node, ast.Name)}
                waiting.append(names & own.keys())
        before = [needed[name] for name in own if name in needed]
        return snippet.but([*dict.fromkeys(before), *snippet.setup])

    def _helpers(self) -> dict[str, ast.FunctionDef]:
        functions = [item for item in self.tree.body if isinstance(item, ast.FunctionDef)]
        return {item.name: item for item in functions if value_of(item) is not None}


def _with_bases(classes: dict[str, ast.ClassDef], name: str) -> list[ast.Module | ast.ClassDef]:
    scopes: list[ast.Module | ast.ClassDef] = []
    waiting = [name]
    while waiting:
        item = classes.pop(waiting.pop(0), None)
        if item is not None:
            scopes.append(item)
            waiting += [dotted(base) for base in item.bases]
    return scopes


def _cases(function: ast.FunctionDef) -> list[dict[str, ast.expr]]:
    """Return the values of the test's parameters in each case, as far as its decorators contain them."""
    parametrisations: list[list[dict[str, ast.expr]]] = []
    for item in function.decorator_list:
        if isinstance(item, ast.Call) and dotted(item.func).endswith("parametrize") and len(item.args) == 2:
            parametrisations.append(list(_rows(item.args[0], item.args[1])))
    joint = [
        {name: value for case in cases for name, value in case.items()}
        for cases in itertools.product(*parametrisations)
    ]
    step = max(1, len(joint) // _MAX_CASES)
    return joint[::step][:_MAX_CASES]


def _rows(names: ast.expr, values: ast.expr) -> Iterator[dict[str, ast.expr]]:
    try:
        columns = ast.literal_eval(names)
    except ValueError:
        return
    keys = [name.strip() for name in columns.split(",")] if isinstance(columns, str) else list(columns)
    for row in values.elts if isinstance(values, ast.List | ast.Tuple) else ():
        if isinstance(row, ast.Call) and dotted(row.func).endswith("param"):
            parts = row.args
        else:
            parts = row.elts if len(keys) > 1 and isinstance(row, ast.Tuple | ast.List) else [row]
        if len(parts) == len(keys):
            yield dict(zip(keys, parts, strict=True))


def _fixtures(tree: ast.Module, function: ast.FunctionDef) -> Iterator[ast.stmt]:
    """Yield the bodies of the file's own fixtures that a function uses, as assignments."""
    fixtures = {item.name: item for item in tree.body if isinstance(item, ast.FunctionDef) and _is_fixture(item)}
    for name in [item.arg for item in function.args.args]:
        fixture = fixtures.get(name)
        if fixture is None or fixture is function:
            continue
        *body, end = fixture.body
        value = end.value if isinstance(end, ast.Return) else None
        if isinstance(end, ast.Expr) and isinstance(end.value, ast.Yield):
            value = end.value.value
        if value is not None:
            yield from _fixtures(tree, fixture)
            yield from (copy.deepcopy(line) for line in body if not is_docstring(line))
            if not (isinstance(value, ast.Name) and value.id == name):
                yield _assigned(name, value)


def _assigned(name: str, value: ast.expr) -> ast.stmt:
    target = ast.Name(id=name, ctx=ast.Store())
    return ast.fix_missing_locations(ast.Assign(targets=[target], value=copy.deepcopy(value), lineno=1))


def _is_fixture(function: ast.FunctionDef) -> bool:
    items = [item.func if isinstance(item, ast.Call) else item for item in function.decorator_list]
    return any(dotted(item).endswith("fixture") for item in items)


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef) and _is_fixture(statement):
        return []
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _set_up(tree: ast.Module, function: ast.FunctionDef) -> Iterator[ast.stmt]:
    """Yield what a test's class assigns, and the body of its `setUp`."""
    owner = next((item for item in tree.body if isinstance(item, ast.ClassDef) and function in item.body), None)
    for item in owner.body if owner is not None else ():
        if isinstance(item, ast.Assign):
            yield copy.deepcopy(item)
        elif isinstance(item, ast.FunctionDef) and item.name in ("setUp", "setup_method"):
            yield from (copy.deepcopy(line) for line in item.body if not is_docstring(line))
