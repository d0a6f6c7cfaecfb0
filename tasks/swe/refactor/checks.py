"""Declarative checks of the shape of Python code. They read text and import nothing, so any tree can be checked.

A check is an object with one verb and its arguments, e.g. `{"defined": "pkg.mod:Class.method"}`,
`{"not_referenced": "name", "within": "pkg"}`, `{"calls": "helper", "within": "pkg.mod:function"}`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.base.syntax import parse

CHECKS = "checks"
"""Key in an instance's `meta`: the checks for `evaluate`."""
_MAX_BYTES = 2 * 2**20
_ROOTS = ("", "src/", "lib/")


@dataclass(frozen=True)
class ShapeCheckResult:
    """Whether one check holds."""

    check: Mapping[str, Any]
    holds: bool
    reason: str = ""
    """Why it does not."""


class Code:
    """The modules of a tree, parsed on demand."""

    def __init__(self, tree: Mapping[str, bytes]):
        self._tree = tree
        self._parsed: dict[str, ast.Module | None] = {}

    def module(self, name: str) -> ast.Module | None:
        """Return a module by its dotted name; `None` if it does not exist or cannot be parsed."""
        stem = name.replace(".", "/")
        for root in _ROOTS:
            for path in (f"{root}{stem}.py", f"{root}{stem}/__init__.py"):
                if path in self._tree:
                    return self._parse(path)
        return None

    def modules_below(self, package: str) -> Iterator[tuple[str, ast.Module | None]]:
        """Yield path and tree of every module of a package (or of one module, or of a folder of tests)."""
        stem = package.replace(".", "/")
        for path in sorted(self._tree):
            plain = next((path[len(root) :] for root in reversed(_ROOTS) if root and path.startswith(root)), path)
            if plain.endswith(".py") and (plain == f"{stem}.py" or plain.startswith(f"{stem}/")):
                yield path, self._parse(path)

    def find(self, target: str) -> ast.AST | None:
        """Return the node that `pkg.mod:Class.method` names: a module, class, function, or assignment."""
        name, _, inner = target.partition(":")
        node: ast.AST | None = self.module(name)
        for part in inner.split(".") if inner else ():
            node = next((item for item in getattr(node, "body", ()) if part in _names_of(item)), None)
        return node

    def _parse(self, path: str) -> ast.Module | None:
        if path not in self._parsed:
            try:
                data = self._tree[path]
                self._parsed[path] = parse(data.decode("utf-8")) if len(data) <= _MAX_BYTES else None
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._parsed[path] = None
        return self._parsed[path]


def evaluate(checks: Sequence[Mapping[str, Any]], tree: Mapping[str, bytes]) -> tuple[ShapeCheckResult, ...]:
    """Evaluate checks on a tree of files. Raises `UsageError` for an invalid check."""
    code = Code(tree)
    return tuple(_evaluate(check, code) for check in checks)


def _evaluate(check: Mapping[str, Any], code: Code) -> ShapeCheckResult:
    verbs = [key for key in check if key in _VERBS]
    if len(verbs) != 1:
        raise UsageError(f"a check needs one verb of {', '.join(_VERBS)}; this has {sorted(check)}")
    reason = _VERBS[verbs[0]](code, check)
    return ShapeCheckResult(check, not reason, reason)


def _defined(code: Code, check: Mapping[str, Any]) -> str:
    return "" if code.find(check["defined"]) is not None else f"{check['defined']} is not defined"


def _not_defined(code: Code, check: Mapping[str, Any]) -> str:
    return f"{check['not_defined']} is still defined" if code.find(check["not_defined"]) is not None else ""


def _not_referenced(code: Code, check: Mapping[str, Any]) -> str:
    name = check["not_referenced"]
    for path, module in code.modules_below(check["within"]):
        if module is None:
            return f"{path} cannot be parsed"
        if name in set(_references(module)):
            return f"{path} still refers to {name!r}"
    return ""


def _referenced(code: Code, check: Mapping[str, Any]) -> str:
    node = code.find(check["within"])
    if node is None:
        return f"{check['within']} is not there"
    name = check["referenced"]
    return "" if name in set(_references(node)) else f"{check['within']} does not refer to {name!r}"


def _imports(code: Code, check: Mapping[str, Any]) -> str:
    module, _, name = check["imports"].partition(":")
    node = code.find(check["within"])
    for item in ast.walk(node) if node is not None else ():
        if isinstance(item, ast.ImportFrom) and _from(item, check["within"]) == module:
            if not name or any(alias.name == name for alias in item.names):
                return ""
        elif isinstance(item, ast.Import) and not name and any(alias.name == module for alias in item.names):
            return ""
    return f"{check['within']} does not import {check['imports']}"


def _calls(code: Code, check: Mapping[str, Any]) -> str:
    return (
        "" if check["calls"] in _called(code, check["within"]) else f"{check['within']} does not call {check['calls']}"
    )


def _not_calls(code: Code, check: Mapping[str, Any]) -> str:
    if code.find(check["within"]) is None:
        return f"{check['within']} is not there"
    return (
        f"{check['within']} calls {check['not_calls']}" if check["not_calls"] in _called(code, check["within"]) else ""
    )


def _parameters(code: Code, check: Mapping[str, Any]) -> str:
    node = code.find(check["parameters"])
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return f"{check['parameters']} is not a function"
    names = [item.arg for item in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return "" if names == list(check["are"]) else f"{check['parameters']} takes {names}, not {list(check['are'])}"


def _default(code: Code, check: Mapping[str, Any]) -> str:
    node = code.find(check["default"])
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return f"{check['default']} is not a function"
    positional = [*node.args.posonlyargs, *node.args.args]
    pairs = [*zip(reversed(positional), reversed(node.args.defaults), strict=False)]
    pairs += [(item, value) for item, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if value]
    defaults = {item.arg: ast.unparse(value) for item, value in pairs}
    expected = ast.unparse(parse(str(check["is"]), mode="eval").body)
    default = defaults.get(check["of"])
    return (
        "" if default == expected else f"default of {check['of']!r} in {check['default']} is {default}, not {expected}"
    )


def _at_most(code: Code, check: Mapping[str, Any]) -> str:
    node = code.find(check["within"])
    if node is None:
        return f"{check['within']} is not there"
    count = sum(isinstance(item, ast.stmt) for item in ast.walk(node)) - 1
    return "" if count <= check["statements_at_most"] else f"{check['within']} still has {count} statements"


_VERBS: dict[str, Callable[[Code, Mapping[str, Any]], str]] = {
    "defined": _defined,
    "not_defined": _not_defined,
    "referenced": _referenced,
    "not_referenced": _not_referenced,
    "imports": _imports,
    "calls": _calls,
    "not_calls": _not_calls,
    "parameters": _parameters,
    "default": _default,
    "statements_at_most": _at_most,
}
"""Each returns why the check does not hold, or an empty text."""


def _names_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _references(node: ast.AST) -> Iterator[str]:
    """Yield every identifier in code: names, attributes, parameters, keywords, imports and definitions."""
    for item in ast.walk(node):
        if isinstance(item, ast.Name):
            yield item.id
        elif isinstance(item, ast.Attribute):
            yield item.attr
        elif isinstance(item, ast.arg | ast.keyword):
            yield item.arg or ""
        elif isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield item.name
        elif isinstance(item, ast.alias):
            yield from (item.name.rpartition(".")[2], item.asname or "")
        elif isinstance(item, ast.ImportFrom):
            yield from (item.module or "").split(".")


def _called(code: Code, target: str) -> set[str]:
    node = code.find(target)
    calls = [item for item in ast.walk(node) if isinstance(item, ast.Call)] if node is not None else []
    return {getattr(call.func, "attr", getattr(call.func, "id", "")) for call in calls}


def _from(node: ast.ImportFrom, within: str) -> str:
    """Return the absolute name of the imported module."""
    if not node.level:
        return node.module or ""
    package = PurePosixPath(within.partition(":")[0].replace(".", "/")).parts
    base = package[: len(package) - node.level]
    return ".".join((*base, *(node.module or "").split("."))).strip(".")
