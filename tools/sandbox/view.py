"""What of the host is seen, read-only, in sandboxes that have a file system of their own or rules about the host's.

The system's programs, the real interpreter and its standard library, the packages of preloaded modules, what the spec
says. Not the folders of installed packages: what trains a model (and grades it) is often installed there.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from glob import glob
from pathlib import Path

from agentgym.errors import UsageError
from agentgym.tools.sandbox import interpreter

_REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9._-]+)([^;]*)(;.*)?$")


@dataclass(frozen=True)
class View:
    """Parts of the host."""

    shown: tuple[str, ...]
    """Folders of the interpreter."""
    hidden: tuple[str, ...]
    """Folders among them, or among the system's, that are seen empty."""
    late: tuple[str, ...]
    """Files and folders that are seen even within hidden ones."""
    import_paths: tuple[str, ...]
    """Where Python finds the packages of preloaded modules."""


def view(preload: Iterable[str], readable: Iterable[Path], program: str) -> View:
    """Return what sandboxes see that preload these modules and may read these folders."""
    packages = _packages(tuple(sorted(set(preload) - set(sys.stdlib_module_names))))
    late = [*packages]
    for path in readable:
        if not path.is_absolute() or not path.exists():
            raise UsageError(f"readable={str(path)!r} is no absolute path of something that exists")
        late.append(str(path))
    folders = tuple(sorted({os.path.dirname(path) for path in packages}))
    prefix = interpreter.prefix(program)
    return View(_interpreter_folders(prefix), _package_folders(prefix), tuple(late), folders)


@cache
def _interpreter_folders(prefix: str) -> tuple[str, ...]:
    return tuple(path for name in ("bin", "lib", "lib64") if os.path.isdir(path := os.path.join(prefix, name)))


@cache
def _package_folders(prefix: str) -> tuple[str, ...]:
    """Return the folders of installed packages that the shown folders contain."""
    version = "python3*"
    found = {
        *glob(f"{prefix}/lib*/{version}/site-packages"),
        *glob(f"/usr/lib*/{version}/*-packages"),
        *glob(f"/usr/local/lib*/{version}/*-packages"),
    }
    return tuple(sorted(path for path in found if os.path.isdir(path) and not os.path.islink(path)))


@cache
def _packages(modules: tuple[str, ...]) -> tuple[str, ...]:
    """Return the installed files and folders of modules and of all that they require."""
    if not modules:
        return ()
    by_module = importlib.metadata.packages_distributions()
    waiting = []
    for module in modules:
        top = module.partition(".")[0]
        if top not in by_module:
            raise UsageError(f"preload={module!r} is neither of the standard library nor of an installed package")
        waiting += by_module[top]
    seen: set[str] = set()
    paths: set[str] = set()
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name not in seen:
            seen.add(name)
            waiting += _add(name, paths)
    return tuple(sorted(paths))


def _add(name: str, paths: set[str]) -> list[str]:
    """Add the files of a distribution to `paths`; return what it requires."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return []
    base = Path(str(distribution.locate_file("")))
    for file in distribution.files or ():
        top = file.parts[0]
        if top not in ("..", "__pycache__") and not file.is_absolute():
            paths.add(str(base / top))
    required = [_REQUIREMENT.match(line) for line in distribution.requires or ()]
    return [match[1] for match in required if match and "extra" not in (match[3] or "")]
