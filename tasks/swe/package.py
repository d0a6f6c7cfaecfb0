"""Reads a package to build tasks from: its files, and the locations of its modules and tests.

Reads folders, archives and sdists without writing to disk and without running any of their code.
"""

from __future__ import annotations

import ast
import re
import tarfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from contextlib import suppress
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath

from agentgym.base.errors import UsageError
from agentgym.base.syntax import parse

MAX_FILES = 20_000
MAX_FILE_BYTES = 20 * 2**20
MAX_TOTAL_BYTES = 300 * 2**20
_LEFT_OUT = {"__pycache__", ".git", ".hg", ".svn", ".tox", ".nox", ".venv", "venv", "node_modules", ".pytest_cache",
             ".mypy_cache", ".ruff_cache", ".hypothesis", ".eggs", "build", "dist"}  # fmt: skip
_NO_LIBRARY = {"test", "tests", "testing", "doc", "docs", "example", "examples", "script", "scripts", "benchmark",
               "benchmarks", "bench", "ci", "tools", "misc", "extras", "setup", "conftest", "noxfile", "tasks",
               "fabfile", "version", "_version", "__main__", "build", "dist"}  # fmt: skip
_SETTINGS = {"pytest.ini": "pytest", ".pytest.ini": "pytest", "tox.ini": "pytest", "setup.cfg": "tool:pytest"}
"""Files with settings of pytest, besides `pyproject.toml`, and their section."""
_NO_TESTS = {"doc", "docs", "example", "examples", "benchmark", "benchmarks", "bench"}


@dataclass(frozen=True)
class Package:
    """A package with tests."""

    name: str
    version: str
    files: Mapping[str, bytes]
    """All files by POSIX path from the package's root, without caches and version control."""
    python_path: tuple[str, ...]
    """Folders that its modules are imported from, relative to the root."""
    modules: tuple[str, ...]
    """Paths of the library's own modules, tests excluded."""
    test_files: tuple[str, ...]

    def source(self, path: str) -> str:
        """Return a file's text. Raises `UnicodeDecodeError` if it is not UTF-8."""
        return self.files[path].decode("utf-8")

    def import_name(self, path: str) -> str:
        """Return the dotted name under which a module is imported."""
        parts = PurePosixPath(path).with_suffix("").parts
        for root in self.python_path:
            prefix = PurePosixPath(root).parts
            if prefix and parts[: len(prefix)] == prefix:
                parts = parts[len(prefix) :]
                break
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read_package(path: str | Path) -> Package:
    """Read a package from a folder or a tar archive. Raises `UsageError` if it has no modules or no tests."""
    return package_of(read_tree(path), Path(path))


def package_of(files: Mapping[str, bytes], path: Path) -> Package:
    """Return the package that files make up. Raises `UsageError` if it has no modules or no tests.

    Args:
        files: All files by POSIX path from the package's root.
        path: Where they come from: for messages, and as the name of a package that does not state one.
    """
    name, version = _identity(path, files)
    python_path, modules = _library(files)
    tests = tuple(sorted(item for item in files if _is_test_file(item)))
    if not modules:
        raise UsageError(f"{str(path)!r}: found no package or module at the top or under 'src'")
    if not tests:
        raise UsageError(f"{str(path)!r}: found no test files (test_*.py or *_test.py)")
    folders = (*python_path, *_configured_path(files), *_helper_folders(files, tests))
    return Package(name, version, files, tuple(dict.fromkeys(folders)), modules, tests)


def read_tree(path: str | Path) -> dict[str, bytes]:
    """Return the regular files of a folder or tar archive by POSIX path, a single top folder of an archive removed.

    Raises `UsageError` if the path is neither, or if it is too large for a package.
    """
    path = Path(path)
    if path.is_dir():
        pairs: Iterator[tuple[str, bytes]] = _folder_files(path)
    elif path.is_file() and tarfile.is_tarfile(path):
        pairs = _archive_files(path)
    else:
        raise UsageError(f"{str(path)!r} is neither a folder nor a tar archive")
    files: dict[str, bytes] = {}
    total = 0
    for name, content in pairs:
        total += len(content)
        if len(files) >= MAX_FILES or total > MAX_TOTAL_BYTES:
            raise UsageError(f"{str(path)!r} is too large: at most {MAX_FILES} files and {MAX_TOTAL_BYTES >> 20} MiB")
        files[name] = content
    tops = {name.partition("/")[0] for name in files}
    if not path.is_dir() and len(tops) == 1 and all("/" in name for name in files):
        files = {name.partition("/")[2]: content for name, content in files.items()}
    return dict(sorted(files.items()))


def _folder_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_symlink() and path.is_file() and _is_relevant(name) and path.stat().st_size <= MAX_FILE_BYTES:
            yield name, path.read_bytes()


def _archive_files(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(path) as archive:
            for number, member in enumerate(archive):
                if number > 4 * MAX_FILES:
                    raise UsageError(f"{str(path)!r} has too many members")
                name = PurePosixPath(member.name).as_posix()
                if not member.isreg() or member.size > MAX_FILE_BYTES or not _is_relevant(name):
                    continue
                file = archive.extractfile(member)
                if file is not None:
                    yield name, file.read()
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UsageError(f"{str(path)!r} is not an archive that can be read safely: {error}") from error


def _is_relevant(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return not (
        _LEFT_OUT.intersection(parts[:-1])
        or ".." in parts
        or name.startswith("/")
        or name.endswith((".pyc", ".pyo"))
        or any(part.endswith(".egg-info") for part in parts)
    )


def _identity(path: Path, files: Mapping[str, bytes]) -> tuple[str, str]:
    if "PKG-INFO" in files:
        headers = HeaderParser().parsestr(files["PKG-INFO"].decode("utf-8", "replace"))
        return _safe(headers.get("Name", path.name)), headers.get("Version", "0")
    if "pyproject.toml" in files:
        try:
            project = tomllib.loads(files["pyproject.toml"].decode("utf-8", "replace")).get("project", {})
        except tomllib.TOMLDecodeError:
            project = {}
        if "name" in project:
            return _safe(str(project["name"])), str(project.get("version", "0"))
    stem = path.name.removesuffix(".tar.gz").removesuffix(".tgz").removesuffix(".tar")
    match = re.fullmatch(r"(.+?)-(\d[\w.+!]*)", stem)
    return (_safe(match[1]), match[2]) if match else (_safe(stem), "0")


def _safe(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "package"


def _library(files: Mapping[str, bytes]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the import roots and the paths of the library's modules."""
    for root in ("src", "lib", ""):
        prefix = f"{root}/" if root else ""
        tops = {name[len(prefix) :].partition("/")[0] for name in files if name.startswith(prefix)}
        library_tops = {top for top in tops if _is_library_top(top, prefix, files)}
        modules = sorted(
            name
            for name in files
            if name.endswith(".py")
            and name.startswith(prefix)
            and name[len(prefix) :].partition("/")[0] in library_tops
            and not _is_test_path(name)
        )
        if modules:
            return ((root, ".") if root else (".",)), tuple(modules)
    return (".",), ()


def _is_library_top(top: str, prefix: str, files: Mapping[str, bytes]) -> bool:
    if top.removesuffix(".py").lower() in _NO_LIBRARY or not top.removesuffix(".py").isidentifier():
        return False
    if top.endswith(".py"):
        return not _is_test_path(prefix + top)
    return f"{prefix}{top}/__init__.py" in files


def _configured_path(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the folders in `pythonpath` of the package's pytest settings."""
    configured: object = ()
    try:
        project = tomllib.loads(files.get("pyproject.toml", b"").decode("utf-8", "replace"))
        configured = project.get("tool", {}).get("pytest", {}).get("ini_options", {}).get("pythonpath", ())
    except (tomllib.TOMLDecodeError, AttributeError):
        configured = ()
    for name, section in _SETTINGS.items():
        parser = ConfigParser(interpolation=None, strict=False)
        with suppress(ConfigParserError):
            parser.read_string(files.get(name, b"").decode("utf-8", "replace"))
            configured = configured or parser.get(section, "pythonpath", fallback="")
    entries = configured.split() if isinstance(configured, str) else configured if isinstance(configured, list) else ()
    paths = (PurePosixPath(str(entry)).as_posix() for entry in entries)
    return tuple(path for path in paths if path == "." or any(name.startswith(f"{path}/") for name in files))


def _helper_folders(files: Mapping[str, bytes], tests: Iterable[str]) -> tuple[str, ...]:
    """Return the folders whose tests or `conftest.py` import neighbouring modules by their bare names."""
    folders: dict[str, None] = {}
    for test in (*tests, *(name for name in files if PurePosixPath(name).name == "conftest.py")):
        folder = str(PurePosixPath(test).parent)
        beside = {
            PurePosixPath(name).stem
            for name in files
            if name.endswith(".py") and str(PurePosixPath(name).parent) == folder
        }
        if folder != "." and beside.intersection(_imported(files[test])):
            folders[folder] = None
    return tuple(folders)


def _imported(source: bytes) -> Iterator[str]:
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Import):
            yield from (item.name.partition(".")[0] for item in node.names)


def _is_test_file(name: str) -> bool:
    path = PurePosixPath(name)
    stem = path.stem
    named = stem.startswith("test_") or stem.endswith("_test") or (stem == "tests" and len(path.parts) > 1)
    return path.suffix == ".py" and named and not _NO_TESTS.intersection(path.parts[:-1])


def _is_test_path(name: str) -> bool:
    path = PurePosixPath(name)
    return _is_test_file(name) or path.name == "conftest.py" or bool({"test", "tests"}.intersection(path.parts[:-1]))
