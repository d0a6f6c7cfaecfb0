"""The modules that judge an exported task, as files that need nothing but Python 3.11.

They are the modules of the environment themselves, so that an exported task is judged as it is here. What they need of
the sandbox is a stand-in that starts processes (`inside/local_sandbox.py`): the tests have a container of their own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_ALWAYS = {"agentgym.tools.sandbox": "agentgym.tasks.exporting.inside.local_sandbox"}


def module_files(judge: str, stand_ins: Mapping[str, str]) -> dict[str, str]:
    """Return the files, by path.

    Args:
        judge: The module that judges.
        stand_ins: Modules, each with the one that takes its place.
    """
    replaced = {**_ALWAYS, **stand_ins}
    modules = _closure([judge, "agentgym.task"], replaced, ("agentgym.", f"{judge.partition('.')[0]}."))
    found = {_path(module): _source(replaced.get(module, module)) for module in modules}
    packages = {str(parent) for path in found for parent in Path(path).parents if str(parent) != "."}
    empty = {f"{package}/__init__.py": "" for package in sorted(packages)}
    return {**empty, **found, "grade.py": _source("agentgym.tasks.exporting.inside.grade")}


def _closure(waiting: list[str], replaced: Mapping[str, str], ours: tuple[str, ...]) -> list[str]:
    """Return the modules that some modules import whose names begin so, themselves included."""
    found: dict[str, None] = {}
    while waiting:
        module = waiting.pop()
        if module not in found:
            found[module] = None
            waiting += [name for name in _imported(replaced.get(module, module)) if name.startswith(ours)]
    return sorted(found)


@cache
def _imported(module: str) -> tuple[str, ...]:
    """Return the modules that a module imports by `from` when it runs. What a package lies in stays empty."""
    nodes = _running(ast.parse(_source(module)))
    return tuple(
        name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0 and "." in node.module
        for name in _named(str(node.module), [alias.name for alias in node.names])
    )


def _named(module: str, names: Iterable[str]) -> Iterator[str]:
    """Yield what `from module import names` loads: submodules, or the module itself."""
    for name in names:
        inner = f"{module}.{name}"
        yield inner if module.startswith("agentgym.") and _is_package(module) and find_spec(inner) else module


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below one, without those that only type checkers see."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
            yield node
            yield from _running(node)


def _origin(module: str) -> Path:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)


def _is_package(module: str) -> bool:
    return _origin(module).name == "__init__.py"


@cache
def _source(module: str) -> str:
    return _origin(module).read_text(encoding="utf-8")


def _path(module: str) -> str:
    return module.replace(".", "/") + ("/__init__.py" if _is_package(module) else ".py")
