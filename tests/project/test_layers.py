"""Packages form layers: each imports only the ones below it, at module level and inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from agentgym.base import components as rooms
from agentgym.core.registration import PLUGIN_GROUP

ROOT = Path(__file__).parents[2]
MAY_IMPORT = {
    "agentgym": set(),
    "tools": {"agentgym"},
    "tasks": {"agentgym", "tools"},
    "envs": {"agentgym", "tools", "tasks"},
    "trainers": {"agentgym"},
}
"""Packages that the modules of a package may import, besides their own."""
TABLE = "agentgym/base/components.py"


def sources(room: str) -> Iterator[Path]:
    """Every module of a package, without those behind links."""
    for path in sorted((ROOT / room).rglob("*.py")):
        parts = path.relative_to(ROOT).parts
        if room != "agentgym" or parts[1] not in MAY_IMPORT:
            yield path


def name_of(room: str, path: Path) -> str:
    parts = path.relative_to(ROOT if room == "agentgym" else ROOT / room).with_suffix("").parts
    return ".".join(parts if room == "agentgym" else ("agentgym", room, *parts)).removesuffix(".__init__")


MODULES = {name_of(room, path): path for room in MAY_IMPORT for path in sources(room)}


def room_of(module: str) -> str | None:
    head, *rest = module.split(".")
    if head != "agentgym":
        return None
    return rest[0] if rest and rest[0] in MAY_IMPORT else "agentgym"


def modules_named(tree: ast.AST) -> Iterator[str]:
    """Modules in import statements, those inside of functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def texts(tree: ast.AST) -> Iterator[str]:
    """String literals except docstrings, such as `agentgym.tools.index:build_index`."""
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.value


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_package_imports_only_the_layers_below(room: str):
    allowed = {room, None, *MAY_IMPORT[room]}
    wrong = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in sources(room)
        for module in modules_named(ast.parse(path.read_text(encoding="utf-8")))
        if room_of(module) not in allowed
    ]
    assert wrong == []


def test_the_core_names_modules_of_other_packages_only_in_its_table():
    wrong = [
        f"{path.relative_to(ROOT)}: {text!r}"
        for path in sources("agentgym")
        if path != ROOT / TABLE
        for text in texts(ast.parse(path.read_text(encoding="utf-8")))
        if text.startswith("agentgym.") and text != PLUGIN_GROUP and room_of(text.partition(":")[0]) != "agentgym"
    ]
    assert wrong == []


def test_the_table_names_existing_objects():
    named = (rooms.CATALOG, *rooms.COMMANDS.values(), *rooms.TASK_BUILDERS.values())
    for path in (*named, rooms.SUITES, rooms.TRAIN, rooms.POLICIES, rooms.TRAINING_ARGUMENTS):
        module, _, name = path.partition(":")
        file = ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py")
        assert name in set(defined(ast.parse(file.read_text(encoding="utf-8")))), path
    assert {room.removeprefix("agentgym.") for room in rooms.ROOMS} < set(MAY_IMPORT)


def defined(tree: ast.Module) -> Iterator[str]:
    """Names that a module defines, without the slow import."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_modules_have_no_import_cycles():
    imports = {module: imported(path) for module, path in MODULES.items()}
    assert "agentgym.base.components" in imports["agentgym.cli.app"]
    order = tuple(TopologicalSorter(imports).static_order())  # raises CycleError, which names the circle
    assert set(order) == set(MODULES)


def imported(path: Path) -> set[str]:
    """Modules of ours that a module imports, inside of functions and for type checkers too."""
    modules = set()
    for name in modules_named(ast.parse(path.read_text(encoding="utf-8"))):
        module = name if name in MODULES else name.rpartition(".")[0]
        if module in MODULES and MODULES[module] != path:
            modules.add(module)
    return modules
