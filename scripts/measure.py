#!/usr/bin/env python3
"""Measure the size of the project: lines, modules, packages, levels of imports, test cases.

Usage: scripts/measure.py [--cases]
    --cases   also collect the tests of each tier; needs .venv, and takes a minute
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("agentgym", "envs", "tools", "tasks", "trainers")
TIERS = {"fast": "not real and not nightly", "real": "real and not nightly", "nightly": "nightly"}


def tracked(*folders: str) -> list[Path]:
    """Return the files of folders that git tracks, without links."""
    names = subprocess.check_output(["git", "ls-files", "-z", *folders], cwd=ROOT, text=True).split("\0")
    return [path for name in names if name and (path := ROOT / name).is_file() and not path.is_symlink()]


def lines_in(paths: list[Path]) -> int:
    """Return the number of lines in text files."""
    return sum(path.read_bytes().count(b"\n") for path in paths)


def module_name(path: Path) -> str:
    """Return the import name of a module of the product."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    name = ".".join(parts if parts[0] == "agentgym" else ("agentgym", *parts))
    return name.removesuffix(".__init__")


def imported_names(path: Path) -> Iterator[str]:
    """Yield every dotted name that a module imports, at any level."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def import_graph(modules: dict[str, Path]) -> dict[str, set[str]]:
    """Return the modules that each module imports."""
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        owners = {full if full in modules else full.rpartition(".")[0] for full in imported_names(path)}
        graph[name] = (owners & modules.keys()) - {name}
    return graph


def levels(graph: dict[str, set[str]], unit: int) -> int:
    """Return the length of the longest chain of imports between units, which are the first `unit` parts of a name.

    Units that import each other count as one level.
    """
    level: dict[str, int] = {}
    for name in TopologicalSorter(graph).static_order():
        own = name.split(".")[:unit]
        below = [level[other] + (other.split(".")[:unit] != own) for other in graph[name]]
        level[name] = max(below, default=1)
    return max(level.values())


def shared_class_names(modules: dict[str, Path]) -> list[str]:
    """Return the public class names that more than one module defines."""
    places: defaultdict[str, int] = defaultdict(int)
    for path in modules.values():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name] += 1
    return sorted(name for name, count in places.items() if count > 1)


def cases(expression: str) -> int:
    """Return the number of test cases that pytest selects."""
    command = [".venv/bin/python", "-m", "pytest", "--collect-only", "-q", "-m", expression]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    numbers = re.search(r"(\d+)(?:/\d+)? tests? collected", output)
    return int(numbers[1]) if numbers else 0


def main() -> None:
    """Print one line for each measure."""
    sources = [path for path in tracked(*PRODUCT) if path.suffix == ".py"]
    modules = {module_name(path): path for path in sources}
    graph = import_graph(modules)
    core = {name for name in modules if name.split(".")[1:2] not in [[room] for room in PRODUCT[1:]]}
    packages = [path for path in sources if path.name == "__init__.py"]
    rows = {
        "lines of the product (Python, JavaScript, CSS)": lines_in(
            [path for path in tracked(*PRODUCT) if path.suffix in (".py", ".js", ".css")]
        ),
        "lines of data of the product (YAML, SQL, HTML, text)": lines_in(
            [path for path in tracked(*PRODUCT) if path.suffix in (".yaml", ".sql", ".html", ".txt")]
        ),
        "modules of the product": len(modules),
        "packages of the product": len(packages),
        "packages in agentgym/": sum(module_name(path) in core for path in packages),
        "levels of packages in agentgym/": levels({n: graph[n] & core for n in core}, 2),
        "lines of tests": lines_in([path for path in tracked("tests") if path.suffix == ".py"]),
        "lines of benchmarks": lines_in([path for path in tracked("benchmarks") if path.suffix == ".py"]),
        "public class names with several meanings": len(shared_class_names(modules)),
    }
    if "--cases" in sys.argv[1:]:
        rows |= {f"test cases, {tier}": cases(expression) for tier, expression in TIERS.items()}
    for name, value in rows.items():
        print(f"{value:>8,}  {name}")


if __name__ == "__main__":
    main()
