"""Packages stand in layers: each imports only those below, wherever in a file the import stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from agentgym.base import components
from agentgym.core.registration import PLUGIN_GROUP

ROOT = Path(__file__).parents[2]
FOLDERS = ("envs", "tasks", "tools", "trainers")
CORE = ("base", "core", "rollout", "eval")
MAY_IMPORT = {
    "base": set(),
    "core": {"base"},
    "rollout": {"base", "core"},
    "eval": set(CORE),
    "check": set(CORE),
    "view": set(CORE),
    "interop": set(CORE),
    "cli": {*CORE, "check", "view"},
    "tools": {*CORE, "interop"},
    "tasks": {*CORE, "interop", "tools"},
    "envs": {*CORE, "interop", "tools", "tasks"},
    "trainers": {*CORE, "interop"},
}
"""The packages that the modules of a package may import, besides their own. Only the command imports `cli`."""

OPTIONAL = (
    *(f"agentgym.interop.{kind}" for kind in ("envs", "trainers")),
    "agentgym.interop.served.gateway",
    "agentgym.interop.served.openenv",
    "agentgym.envs.swe.building",
    "agentgym.envs.webarena",
)
"""Parts that few people need: loaded by name, never imported from outside."""
EXCEPTIONS = {("agentgym.trainers.outside", "agentgym.interop.served.gateway")}
"""Training on a gateway's sessions is about gateways."""

TABLE = "agentgym/base/components.py"


def modules_of(package: str) -> Iterator[tuple[str, Path]]:
    """Yield the modules of a package: their names and files."""
    folder = ROOT / package if package in FOLDERS else ROOT / "agentgym" / package
    for path in sorted(folder.rglob("*.py")):
        relative = path.relative_to(ROOT).with_suffix("")
        parts = ("agentgym", *relative.parts) if package in FOLDERS else relative.parts
        yield ".".join(parts).removesuffix(".__init__"), path


MODULES = {name: path for package in MAY_IMPORT for name, path in modules_of(package)}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def package_of(module: str) -> str:
    return module.split(".")[1]


def imported(module: str) -> set[str]:
    """Modules of ours that a module imports, inside of functions and for type checkers too."""
    names: set[str] = set()
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    owners = {name if name in MODULES else name.rpartition(".")[0] for name in names}
    return (owners & MODULES.keys()) - {module}


IMPORTS = {module: imported(module) for module in MODULES}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_the_layers_below(package: str):
    allowed = {package, *MAY_IMPORT[package]}
    arrows = [(name, other) for name, _ in modules_of(package) for other in IMPORTS[name]]
    assert [(name, other) for name, other in arrows if package_of(other) not in allowed] == []


def test_optional_parts_are_loaded_by_name_only():
    arrows = [(name, other) for name, others in IMPORTS.items() for other in others]
    wrong = [
        (name, other)
        for part in OPTIONAL
        for name, other in arrows
        if f"{other}.".startswith(f"{part}.") and not f"{name}.".startswith(f"{part}.")
    ]
    assert set(wrong) == EXCEPTIONS


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield texts other than docstrings, such as `agentgym.tools.index:build_index`."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_modules_of_other_folders_are_named_in_one_table():
    wrong = [
        f"{MODULES[name].relative_to(ROOT)}: {text!r}"
        for name, tree in TREES.items()
        if package_of(name) not in FOLDERS and MODULES[name] != ROOT / TABLE
        for text in texts(tree)
        if text.startswith(tuple(f"agentgym.{folder}" for folder in FOLDERS)) and text != PLUGIN_GROUP
    ]
    assert wrong == []


def test_the_table_names_existing_functions():
    table = [text for text in texts(TREES["agentgym.base.components"]) if text.startswith("agentgym.") and ":" in text]
    assert components.POLICIES in table
    for path in table:
        module, _, name = path.partition(":")
        assert name in set(defined(TREES[module])), path
    assert set(components.ENVIRONMENT_PACKAGES) < {f"agentgym.{folder}" for folder in FOLDERS}


def defined(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module defines, without the slow import."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_modules_have_no_import_cycles():
    order = tuple(TopologicalSorter(IMPORTS).static_order())  # raises CycleError, which names the circle
    assert set(order) == set(MODULES)
