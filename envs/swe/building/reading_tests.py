"""Reads tests: finds the snippets that show the expressions a test checks. Runs nothing."""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentgym.envs.swe.building.inlining import Helpers, Replaced, Unrolled, is_docstring, value_of
from agentgym.envs.swe.building.looks import looks
from agentgym.envs.swe.building.snippet import Import, Snippet, imports_of
from agentgym.syntax import parse
from agentgym.tasks.swe.mutation.view import FunctionNode, dotted

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
