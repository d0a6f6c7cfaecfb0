"""The parts of the host that sandboxes see, read-only.

These are the system's programs, the real interpreter and its standard library, the packages of preloaded modules, and
`spec.readable`; not site-packages, where the code that trains and grades a model is often installed.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from glob import glob
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from agentgym.errors import UsageError
from agentgym.tools.sandbox import interpreter


@dataclass(frozen=True)
class HostView:
    """The visible parts of the host."""

    readable: tuple[str, ...]
    """The interpreter's folders."""
    hidden: tuple[str, ...]
    """Folders below those, or below the system's, that appear empty."""
    late: tuple[str, ...]
    """Files and folders that are visible even inside hidden ones."""
    import_paths: tuple[str, ...]
    """The import path of preloaded modules."""


def view(preload: Iterable[str], readable: Iterable[Path], program: str) -> HostView:
    """Return the view of sandboxes that preload these modules and may read these folders."""
    packages = _packages(tuple(sorted(set(preload) - set(sys.stdlib_module_names))))
    late = [*packages]
    for path in readable:
        if not path.is_absolute() or not path.exists():
            raise UsageError(f"readable={str(path)!r} must be an absolute path that exists")
        late.append(str(path))
    folders = tuple(sorted({os.path.dirname(path) for path in packages}))
    prefix = interpreter.prefix(program)
    return HostView(_interpreter_folders(prefix), _package_folders(prefix), tuple(late), folders)


@cache
def _interpreter_folders(prefix: str) -> tuple[str, ...]:
    return tuple(path for name in ("bin", "lib", "lib64") if os.path.isdir(path := os.path.join(prefix, name)))


@cache
def _package_folders(prefix: str) -> tuple[str, ...]:
    """Return the site-packages folders inside the interpreter's folders."""
    version = "python3*"
    folders = {
        *glob(f"{prefix}/lib*/{version}/site-packages"),
        *glob(f"/usr/lib*/{version}/*-packages"),
        *glob(f"/usr/local/lib*/{version}/*-packages"),
    }
    return tuple(sorted(path for path in folders if os.path.isdir(path) and not os.path.islink(path)))


@cache
def _packages(modules: tuple[str, ...]) -> tuple[str, ...]:
    """Return the installed files and folders of modules and their dependencies."""
    if not modules:
        return ()
    by_module = importlib.metadata.packages_distributions()
    waiting = []
    for module in modules:
        top = module.partition(".")[0]
        if top not in by_module:
            raise UsageError(f"preload={module!r} belongs neither to the standard library nor to an installed package")
        waiting += by_module[top]
    visited: set[str] = set()
    paths: set[str] = set()
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in visited:
            visited.add(name)
            waiting += _add(name, paths)
    return tuple(sorted(paths))


def _add(name: str, paths: set[str]) -> list[str]:
    """Add the files of a distribution to `paths`; return its requirements."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return []
    base = Path(str(distribution.locate_file("")))
    for file in distribution.files or ():
        top = file.parts[0]
        if top not in ("..", "__pycache__") and not file.is_absolute():
            paths.add(str(base / top))
    required = [Requirement(line) for line in distribution.requires or ()]
    return [
        requirement.name
        for requirement in required
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    ]
