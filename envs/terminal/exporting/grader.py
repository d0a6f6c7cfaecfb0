"""The grader of the code environment as files that need nothing but Python 3.11.

They are the modules of this package themselves, so that an exported task is judged as it is here. What they need of the
sandbox is a stand-in that starts processes (`inside/local_sandbox.py`): the tests of a task have a container anyway.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

_ROOT = "agentgym.envs.code.grading"
_SANDBOX = "agentgym.tools.sandbox"
_OF_THE_SANDBOX = (f"{_SANDBOX}.limits", f"{_SANDBOX}.result")
_DATA = "agentgym.envs.terminal.exporting"


@cache
def grader_files() -> dict[str, str]:
    """Return the files, by path."""
    data = files(_DATA).joinpath("inside")
    found = {f"{_path(module)}.py": _source(module) for module in _closure([_ROOT, *_OF_THE_SANDBOX])}
    packages = {str(parent) for path in found for parent in Path(path).parents if str(parent) != "."}
    found |= {f"{package}/__init__.py": "" for package in sorted(packages)}
    found[f"{_path(_SANDBOX)}/__init__.py"] = data.joinpath("local_sandbox.py").read_text(encoding="utf-8")
    found["grade.py"] = data.joinpath("grade.py").read_text(encoding="utf-8")
    return found


def _closure(modules: list[str]) -> list[str]:
    """Return the modules that some modules import from this package, themselves included; packages stay empty."""
    found: dict[str, None] = {}
    while modules:
        module = modules.pop()
        if module not in found:
            found[module] = None
            modules += [each for each in _imported(_source(module)) if each != _SANDBOX]
    return sorted(found)


def _imported(source: str) -> Iterator[str]:
    """Yield the modules of this package that a source imports when it runs."""
    for node in _running(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agentgym."):
            yield str(node.module)


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below one, without those that only type checkers see."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
            yield node
            yield from _running(node)


def _source(module: str) -> str:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


def _path(module: str) -> str:
    return module.replace(".", "/")
