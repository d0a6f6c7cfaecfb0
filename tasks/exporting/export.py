"""Writes tasks of an environment as Harbor task folders."""

from __future__ import annotations

import ast
import gzip
import io
import json
import re
import shlex
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from agentgym.base.errors import UsageError
from agentgym.core.env import Env
from agentgym.core.task import Task

_ALWAYS = {"agentgym.tools.sandbox": "agentgym.tasks.exporting.inside.local_sandbox"}


def module_files(judge: str, stand_ins: Mapping[str, str]) -> dict[str, str]:
    """Return the files, by path.

    Args:
        judge: The module that judges.
        stand_ins: Modules, each with the one that takes its place.
    """
    replaced = {**_ALWAYS, **stand_ins}
    modules = _closure([judge, "agentgym.core.task"], replaced, ("agentgym.", f"{judge.partition('.')[0]}."))
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


ANSWERS = "/app"
"""The folder that the agent works in: all that the verifier sees of its work."""
_TEST = """#!/bin/bash
# Writes /logs/verifier/reward.json and reward.txt, unless the grader itself fails.
exec python3 -I "$(dirname "$0")/grade.py"
"""
_LEVELS = {1: "easy", 2: "easy", 3: "medium"}
_SCHEMA = "1.4"


@dataclass(frozen=True)
class HarborFolder:
    """What a task becomes.

    The verifier has a container of its own, which gets `/app` of the agent's. There, a module of the environment judges
    the work. It and what it imports (by `from ... import`) from `agentgym` and its own package are put into the folder;
    besides, they may need only Python's standard library.
    """

    instruction: str
    judge: str
    """Module with `prepare(task, given, folder) -> Callable[[Path], Mapping[str, float]]`. What it
    returns is called with the root of the file system when the tests have been removed, and returns numbers from 0 to
    1, among them `reward`."""
    solve: str
    """Shell script that writes the solution."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """What the judge needs besides the task, as JSON data."""
    dockerfile: str = ""
    """Lines after `FROM` and `WORKDIR` of the agent's image."""
    context: Mapping[str, str | bytes] = field(default_factory=dict)
    """Files that these lines copy, by path."""
    tests: Mapping[str, str | bytes] = field(default_factory=dict)
    """Files for the judge, by path."""
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    """Modules of this package, each with the one that takes its place."""
    timeout_s: float = 300.0
    """Seconds for the tests."""


@runtime_checkable
class HasHarborFolders(Protocol):
    """An environment whose tasks can be written as Harbor task folders."""

    def harbor_folder(self, task: Task) -> HarborFolder:
        """Return what a task becomes. Raises `UsageError` if this one cannot be written."""
        ...


def write_folder(out: Path, task: Task, env_id: str, written: HarborFolder, image: str) -> Path:
    """Write a task into a new folder below `out` and return it.

    Raises:
        UsageError: The folder exists.
    """
    folder = out / re.sub(r"[^A-Za-z0-9._-]+", "-", task.id).strip("-.")
    if folder.exists():
        raise UsageError(f"{folder} exists; remove it, or choose another folder")
    known = {"judge": written.judge, "task": task.to_dict(), "given": dict(written.given)}
    files: dict[str, str | bytes] = {
        "task.toml": _config(task, env_id, folder.name, written.timeout_s),
        "instruction.md": written.instruction.rstrip() + "\n",
        "environment/Dockerfile": f"FROM {image}\nWORKDIR {ANSWERS}\n{written.dockerfile}",
        "solution/solve.sh": written.solve,
        "tests/Dockerfile": f"FROM {image}\nCOPY . /tests/\n",
        "tests/test.sh": _TEST,
        "tests/task.json": json.dumps(known),
    }
    tests = {**module_files(written.judge, written.stand_ins), **written.tests}
    files |= {f"environment/{path}": content for path, content in written.context.items()}
    files |= {f"tests/{path}": content for path, content in tests.items()}
    for path, content in files.items():
        _write(folder / path, content)
    return folder


def _write(place: Path, content: str | bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    if place.suffix == ".sh":
        place.chmod(0o755)


def here_document(path: str, text: str) -> str:
    """Return the shell command that writes a text to a file, byte for byte but for line breaks at its end."""
    end = "END_OF_FILE"
    while end in text.splitlines():
        end += "_"
    return f"cat > {shlex.quote(path)} <<'{end}'\n{text.rstrip(chr(10))}\n{end}\n"


def packed_tree(tree: Mapping[str, bytes]) -> bytes:
    """Return files as a `.tar.gz`, the same for the same files."""
    unpacked = io.BytesIO()
    with tarfile.open(fileobj=unpacked, mode="w") as archive:
        for path, content in sorted(tree.items()):
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(unpacked.getvalue(), mtime=0)


def _config(task: Task, env_id: str, name: str, timeout_s: float) -> str:
    values = {
        "difficulty": _LEVELS.get(task.difficulty, "hard"),
        "tags": list(task.tags),
        "environment": env_id,
        "task": task.id,
        "hash": task.hash,
    }
    metadata = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
    machine = 'network_mode = "no-network"\ncpus = 1\nmemory_mb = 2048\n'
    return (
        f'schema_version = "{_SCHEMA}"\nartifacts = ["{ANSWERS}"]\n\n[task]\nname = "agentgym/{name}"\n\n'
        f"[metadata]\n{metadata}\n[agent]\ntimeout_sec = 900.0\n\n"
        f'[verifier]\nenvironment_mode = "separate"\ntimeout_sec = {timeout_s}\n\n'
        f"[verifier.environment]\n{machine}\n[environment]\n{machine}"
    )


def export_harbor(env: Env, env_id: str, tasks: Iterable[Task], out: Path, image: str) -> list[Path]:
    """Write tasks as Harbor task folders and return the folders.

    Args:
        env: The environment of the tasks.
        env_id: Its id.
        tasks: The tasks.
        out: The folder to write them to.
        image: The image that their Dockerfiles start from, with bash and Python 3.11 or newer.

    Raises:
        UsageError: Tasks of this environment, or one of these, cannot be written; or a folder exists.
    """
    if not isinstance(env, HasHarborFolders):
        raise UsageError(
            f"tasks of {env_id!r} cannot be written as Harbor folders: its class has no method harbor_folder "
            "(agentgym.tasks.exporting.HasHarborFolders); code, sql and swe have it"
        )
    return [write_folder(out, task, env_id, env.harbor_folder(task), image) for task in tasks]
