"""Extracts an example from a failing test: the code up to the failing line, the expected and the actual result.

Reads the test's source; runs nothing.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
import textwrap
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from agentgym.envs.swe.building.runner import Failure
from agentgym.syntax import parse
from agentgym.tasks.swe.mutation.view import FunctionNode, dotted

MAX_LINES = 24
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+|\(id=\d+\)")
_NO_RAISE = re.compile(r"DID NOT RAISE.*?([A-Za-z_]\w*)'?>?\)?$")


@dataclass(frozen=True)
class Example:
    """One failing behaviour as a user would show it."""

    code: str
    """Statements that lead to the failure, without the assertion."""
    call: str
    """The last of them, on one line where possible."""
    expected: str
    """Source text of the expected value; empty if there is none."""
    got: str
    """The actual value; empty if not known."""
    raises: str
    """The actual exception, with its message; empty if none."""
    should_raise: str
    """The expected exception; empty if none."""
    given: tuple[tuple[str, str], ...]
    """Names and values of the test's parameters that the code uses."""
    needs_code: bool
    """Whether the call is meaningless without the code before it."""
    names: tuple[str, ...]
    """Public names that the code calls, outermost first; an issue may mention them."""


def example_of(test: str, source: str, failure: Failure | None) -> Example | None:
    """Return the example in a failing test, or `None` if its source does not show one."""
    try:
        tree = parse(source)
    except SyntaxError:
        return None
    function = find_test(tree, test)
    if function is None:
        return None
    statement = _failing_statement(function, test, failure)
    if statement is None:
        return None
    call, expected, should_raise = _parts(statement, source)
    lines = [*_fixtures(tree, function, source), *(_text(source, item) for item in _before(function, statement))]
    if expected.isidentifier() and failure and failure.compared:
        expected = _cleaned(failure.compared[2])
    helpers = _helpers(tree, "\n".join([*lines, call]), source)
    lines = [*helpers.values(), *lines]
    lines = [*_imports(tree, "\n".join([*lines, call])), *lines]
    used = _identifiers("\n".join([*lines, call]))
    given = tuple(
        (name, _cleaned(value)) for name, value in (failure.parameters if failure else {}).items() if name in used
    )
    raises = _raised(failure)
    wanted = _NO_RAISE.search(failure.message) if failure and failure.exception == "Failed" else None
    return Example(
        code="\n".join([*lines, call]),
        call=" ".join(call.split()),
        expected="" if should_raise else expected,
        got=_cleaned(failure.compared[0]) if failure and failure.compared and failure.compared[1] == "==" else "",
        raises=raises,
        should_raise=should_raise if wanted or raises else "",
        given=given,
        needs_code=bool(helpers),
        names=tuple(
            name for name in _public_names(tree, statement, helpers, used) if f"def {name}(" not in "\n".join(lines)
        ),
    )


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


def _with_bases(classes: dict[str, ast.ClassDef], name: str) -> list[ast.Module | ast.ClassDef]:
    found: list[ast.Module | ast.ClassDef] = []
    waiting = [name]
    while waiting:
        item = classes.pop(waiting.pop(0), None)
        if item is not None:
            found.append(item)
            waiting += [dotted(base) for base in item.bases]
    return found


def _failing_statement(function: FunctionNode, test: str, failure: Failure | None) -> ast.stmt | None:
    file = test.partition("::")[0]
    last = function.end_lineno or function.lineno
    frames = failure.frames if failure else ()
    lines = [line for path, name, line in frames if path == file and name.rpartition(".")[2] == function.name]
    inside = [line for line in lines if function.lineno <= line <= last]
    statements = [item for item in ast.walk(function) if isinstance(item, ast.stmt) and item is not function]
    if not inside:
        asserts = [item for item in statements if isinstance(item, ast.Assert)]
        return asserts[-1] if asserts else None
    around = [item for item in statements if item.lineno <= inside[-1] <= (item.end_lineno or item.lineno)]
    withs = [item for item in around if isinstance(item, ast.With) and _raised_in(item)]
    if withs:
        return withs[0]
    return max(around, key=lambda item: item.lineno, default=None)


def _raised_in(node: ast.With) -> ast.expr | None:
    call = node.items[0].context_expr
    if isinstance(call, ast.Call) and dotted(call.func).endswith(("raises", "assertRaises", "assertRaisesRegex")):
        return call.args[0] if call.args else None
    return None


def _parts(statement: ast.stmt, source: str) -> tuple[str, str, str]:
    """Return the call, the expected value and the expected exception of a statement."""
    if isinstance(statement, ast.With):
        wanted = _raised_in(statement)
        body = "\n".join(_text(source, item) for item in statement.body)
        return body, "", _text(source, wanted) if wanted is not None else ""
    if isinstance(statement, ast.Assert):
        test = statement.test
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq | ast.Is) and len(test.ops) == 1:
            return _text(source, test.left), _text(source, test.comparators[0]), ""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return _text(source, test.operand), "a false value", ""
        return _text(source, test), "True" if isinstance(test, ast.Compare) else "a true value", ""
    value = statement.value if isinstance(statement, ast.Expr) else None
    if (
        isinstance(value, ast.Call)
        and dotted(value.func).endswith(("assertEqual", "assertEquals"))
        and len(value.args) > 1
    ):
        return _text(source, value.args[0]), _text(source, value.args[1]), ""
    return _text(source, statement), "", ""


def _before(function: FunctionNode, statement: ast.stmt) -> list[ast.stmt]:
    """Simple statements of the body before the failing one; earlier assertions hold and are dropped."""
    found = [
        item
        for item in function.body
        if (item.end_lineno or item.lineno) < statement.lineno
        and not isinstance(item, ast.Assert)
        and not (isinstance(item, ast.With) and _raised_in(item))
        and not (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))
    ]
    holder = next((item for item in function.body if item is not statement and statement in ast.walk(item)), None)
    if isinstance(holder, ast.With):
        found += [item for item in holder.body if (item.end_lineno or item.lineno) < statement.lineno]
    return found


def _helpers(tree: ast.Module, code: str, source: str) -> dict[str, str]:
    """Return the file's own definitions that the code uses, if they are short."""
    own = {name: item for item in tree.body for name in _defined(item) if not name.startswith("test")}
    found: dict[str, str] = {}
    waiting = [code]
    while waiting:
        for name in sorted(_identifiers(waiting.pop()) & own.keys() - found.keys()):
            item = own[name]
            if isinstance(item, ast.FunctionDef) and _is_fixture(item):
                continue
            found[name] = _text(source, item)
            waiting.append(found[name])
    order = list(own)
    return dict(sorted(found.items(), key=lambda pair: order.index(pair[0])))


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _imports(tree: ast.Module, code: str) -> Iterator[str]:
    used = _identifiers(code)
    for statement in tree.body:
        if not isinstance(statement, ast.Import | ast.ImportFrom) or getattr(statement, "module", "") == "__future__":
            continue
        names = [(item.asname or item.name).partition(".")[0] for item in statement.names]
        pairs = zip(statement.names, names, strict=True)
        wanted = [alias for alias, name in pairs if name in used and name not in ("pytest", "unittest")]
        if wanted:
            yield ast.unparse(_with_names(statement, wanted))


def _with_names(statement: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> ast.stmt:
    if isinstance(statement, ast.Import):
        return ast.Import(names=names)
    return ast.ImportFrom(module=statement.module, names=names, level=statement.level)


def _fixtures(tree: ast.Module, function: FunctionNode, source: str) -> Iterator[str]:
    """The bodies of the file's own fixtures that the test uses, as assignments."""
    wanted = {item.arg for item in function.args.args}
    for item in tree.body:
        if not isinstance(item, ast.FunctionDef) or item.name not in wanted or not _is_fixture(item):
            continue
        last = item.body[-1]
        value = last.value if isinstance(last, ast.Return) else None
        if isinstance(last, ast.Expr) and isinstance(last.value, ast.Yield):
            value = last.value.value
        if value is not None:
            yield from (_text(source, line) for line in item.body[:-1] if not _is_docstring(line))
            if _text(source, value) != item.name:
                yield f"{item.name} = {_text(source, value)}"


def _is_fixture(function: ast.FunctionDef) -> bool:
    return any(
        dotted(item.func if isinstance(item, ast.Call) else item).endswith("fixture")
        for item in function.decorator_list
    )


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _public_names(
    tree: ast.Module, statement: ast.stmt, helpers: Collection[str], used: Collection[str]
) -> tuple[str, ...]:
    """The names of the library that the failing statement calls, or else those that the code imports."""
    scope: ast.AST = statement.test if isinstance(statement, ast.Assert) else statement
    if isinstance(statement, ast.With):
        scope = ast.Module(body=statement.body, type_ignores=[])
    calls = [item for item in ast.walk(scope) if isinstance(item, ast.Call)]
    called = [dotted(call.func) or getattr(call.func, "attr", "") for call in calls]
    own = [name for name in called if name and name not in helpers and not _is_no_library(name)]
    froms = [
        item for item in tree.body if isinstance(item, ast.ImportFrom) and item.module not in sys.stdlib_module_names
    ]
    imported = [item.name for statement in froms for item in statement.names if item.name in used]
    return tuple(dict.fromkeys(own or imported))


def _is_no_library(name: str) -> bool:
    first = name.partition(".")[0]
    return hasattr(builtins, name) or first in ("pytest", "self") or first in sys.stdlib_module_names


def _raised(failure: Failure | None) -> str:
    if failure is None or failure.exception in ("AssertionError", "Failed"):
        return ""
    message = _cleaned(failure.message.split("\n")[0])[:160]
    return f"{failure.exception}: {message}" if message else failure.exception


def _text(source: str, node: ast.AST) -> str:
    decorators = getattr(node, "decorator_list", [])
    if decorators:
        first, last = decorators[0].lineno, node.end_lineno or decorators[0].lineno  # type: ignore[attr-defined]
        text = "\n".join(source.split("\n")[first - 1 : last])
    else:
        text = ast.get_source_segment(source, node, padded=True) or ""
    return textwrap.dedent(text).strip("\n").rstrip()


def _identifiers(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", text))


def _cleaned(text: str) -> str:
    return _ADDRESS.sub("", text)
