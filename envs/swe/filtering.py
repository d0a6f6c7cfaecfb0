"""Selects what to grade of an agent's work: changes to source files. Changes to how tests run are dropped and named.

Works on trees held in memory; files of the agent are never run or imported, and parsed only as data.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

MAX_FILE_BYTES = 4_000_000
MAX_CHANGED_FILES = 500

_TEST_FOLDERS = {"test", "tests"}
_TEST_SETTINGS = {"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg"}
_AT_START = {"sitecustomize.py", "usercustomize.py"}
_TEST_TOOLS = {"pytest", "_pytest", "pluggy", "iniconfig"}
_NATIVE = {".so", ".pyd", ".dll", ".dylib", ".exe", ".a", ".o"}
_BYTECODE = {".pyc", ".pyo"}
_IGNORED = {".git", ".hg", ".svn", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
"""Folders that are never part of the work; they are dropped silently."""


@dataclass(frozen=True)
class FilteredTree:
    """A tree with the changes that count."""

    tree: Mapping[str, bytes]
    changed: tuple[str, ...]
    """Paths that differ from the pristine tree."""
    dropped: Mapping[str, str]
    """Paths whose change was dropped, and why."""


def filtered(pristine: Mapping[str, bytes], worked: Mapping[str, bytes], allowed: Collection[str] = ()) -> FilteredTree:
    """Return the pristine tree with the changes of the worked-on tree that count.

    Args:
        pristine: The repository as the agent found it.
        worked: The files that the agent left.
        allowed: Paths that may be changed whatever their name, such as those that the gold patch changes.
    """
    tree, changed, dropped = dict(pristine), [], {}
    for path in sorted({*pristine, *worked}):
        before, after = pristine.get(path), worked.get(path)
        if before == after or _IGNORED.intersection(path.split("/")):
            continue
        reason = "" if path in allowed else _kind_refused(path, before)
        reason = reason or _content_refused(path, before, after)
        if not reason and len(changed) >= MAX_CHANGED_FILES:
            reason = "too many files"
        if reason:
            dropped[path] = reason
            continue
        changed.append(path)
        if after is None:
            del tree[path]
        else:
            tree[path] = after
    return FilteredTree(tree, tuple(changed), dropped)


def is_test(path: str) -> bool:
    """Whether a file belongs to the tests, judging by its name and folder."""
    *folders, name = path.split("/")
    named = name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py") or name == "tests.py")
    return named or name == "conftest.py" or bool(_TEST_FOLDERS.intersection(folders))


def _kind_refused(path: str, before: bytes | None) -> str:
    """Return why a file of this name must not be changed, or an empty text."""
    pure = PurePosixPath(path)
    parts = set(pure.parts)
    if pure.name in _TEST_SETTINGS:
        return "test settings"
    if is_test(path):
        return "test"
    if pure.name in _AT_START or pure.suffix == ".pth" or any(_is_metadata(part) for part in parts):
        return "runs at interpreter start"
    if _TEST_TOOLS.intersection({*parts, pure.stem}):
        return "shadows a test tool"
    if pure.suffix in _BYTECODE or pure.suffix in _NATIVE or ".so." in pure.name:
        return "compiled"
    if before is None and _shadows_standard_library(pure):
        return "shadows the standard library"
    return ""


def _is_metadata(part: str) -> bool:
    return part.endswith((".dist-info", ".egg-info", ".egg-link"))


def _shadows_standard_library(path: PurePosixPath) -> bool:
    """Whether a new importable file has the name of a standard module."""
    parts = list(path.parts)
    if len(parts) > 1 and parts[0] in ("src", "lib"):
        del parts[0]
    name = parts[0].removesuffix(".py")
    importable = len(parts) > 1 or path.suffix == ".py"
    return importable and name in sys.stdlib_module_names


def _content_refused(path: str, before: bytes | None, after: bytes | None) -> str:
    if after is None:
        return ""
    if len(after) > MAX_FILE_BYTES:
        return "too large"
    if b"\0" in after:
        return "not text"
    if path.rpartition("/")[2] == "pyproject.toml" and _pytest_settings(before) != _pytest_settings(after):
        return "test settings"
    return ""


def _pytest_settings(data: bytes | None) -> object:
    """Return pytest's part of a pyproject.toml, or an object that equals no other if the file cannot be read."""
    if data is None:
        return None
    try:
        return tomllib.loads(data.decode("utf-8")).get("tool", {}).get("pytest")
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, AttributeError, RecursionError):
        return object()
