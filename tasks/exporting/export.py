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
    """Return the content of the files by path.

    Args:
        judge: The module that judges.
        stand_ins: Modules, each with its replacement.
    """
    replaced = {**_ALWAYS, **stand_ins}
    modules = _closure([judge, "agentgym.core.task"], replaced, ("agentgym.", f"{judge.partition('.')[0]}."))
    files = {_path(module): _source(replaced.get(module, module)) for module in modules}
    packages = {str(parent) for path in files for parent in Path(path).parents if str(parent) != "."}
    empty = {f"{package}/__init__.py": "" for package in sorted(packages)}
    return {**empty, **files, "grade.py": _source("agentgym.tasks.exporting.inside.grade")}


def _closure(waiting: list[str], replaced: Mapping[str, str], ours: tuple[str, ...]) -> list[str]:
    """Return the modules, and all modules they import whose names begin with one of `ours`."""
    closure: dict[str, None] = {}
    while waiting:
        module = waiting.pop()
        if module not in closure:
            closure[module] = None
            waiting += [name for name in _imported(replaced.get(module, module)) if name.startswith(ours)]
    return sorted(closure)


@cache
def _imported(module: str) -> tuple[str, ...]:
    """Return the modules that a module imports with `from` at run time."""
    nodes = _running(ast.parse(_source(module)))
    return tuple(
        name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0 and "." in node.module
        for name in _named(str(node.module), [alias.name for alias in node.names])
    )


def _named(module: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the modules that `from module import names` loads: submodules, or the module itself."""
    for name in names:
        inner = f"{module}.{name}"
        yield inner if module.startswith("agentgym.") and _is_package(module) and find_spec(inner) else module


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below a node, except those under `if TYPE_CHECKING`."""
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
"""The working folder of the agent; the verifier sees nothing else of its work."""
_TEST = """#!/bin/bash
# Writes /logs/verifier/reward.json and reward.txt, unless the grader itself fails.
exec python3 -I "$(dirname "$0")/grade.py"
"""
_LEVELS = {1: "easy", 2: "easy", 3: "medium"}
_SCHEMA = "1.4"


@dataclass(frozen=True)
class HarborFolder:
    """The content of an exported task.

    The verifier runs in its own container, with a copy of the agent's `/app`. There, a module of the environment judges
    the work. The folder contains that module and the modules that it imports (with `from ... import`) from `agentgym`
    and its own package; all other imports must be of Python's standard library.
    """

    instruction: str
    judge: str
    """Module with `prepare(task, settings, folder) -> Callable[[Path], Mapping[str, float]]`. After the tests have been
    removed from the disk, the returned function is called with the root of the file system; it returns numbers from 0
    to 1, among them `reward`."""
    solve: str
    """Shell script that writes the solution."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the judge, as JSON data."""
    dockerfile: str = ""
    """Lines of the agent's Dockerfile after `FROM` and `WORKDIR`."""
    context: Mapping[str, str | bytes] = field(default_factory=dict)
    """Files that these lines copy, by path."""
    tests: Mapping[str, str | bytes] = field(default_factory=dict)
    """Files for the judge, by path."""
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    """Modules of this package, each with its replacement."""
    timeout_s: float = 300.0
    """Time limit of the tests."""


@runtime_checkable
class HasHarborFolders(Protocol):
    """An environment whose tasks can be exported as Harbor task folders."""

    def harbor_folder(self, task: Task) -> HarborFolder:
        """Return the content of the folder of a task. Raises `UsageError` if the task cannot be exported."""
        ...


def write_folder(out: Path, task: Task, env_id: str, harbor_folder: HarborFolder, image: str) -> Path:
    """Write a task into a new folder below `out` and return it.

    Raises:
        UsageError: The folder exists.
    """
    folder = out / re.sub(r"[^A-Za-z0-9._-]+", "-", task.id).strip("-.")
    if folder.exists():
        raise UsageError(f"{folder} exists; remove it or choose another folder")
    judge_input = {"judge": harbor_folder.judge, "task": task.to_dict(), "given": dict(harbor_folder.settings)}
    files: dict[str, str | bytes] = {
        "task.toml": _config(task, env_id, folder.name, harbor_folder.timeout_s),
        "instruction.md": harbor_folder.instruction.rstrip() + "\n",
        "environment/Dockerfile": f"FROM {image}\nWORKDIR {ANSWERS}\n{harbor_folder.dockerfile}",
        "solution/solve.sh": harbor_folder.solve,
        "tests/Dockerfile": f"FROM {image}\nCOPY . /tests/\n",
        "tests/test.sh": _TEST,
        "tests/task.json": json.dumps(judge_input),
    }
    tests = {**module_files(harbor_folder.judge, harbor_folder.stand_ins), **harbor_folder.tests}
    files |= {f"environment/{path}": content for path, content in harbor_folder.context.items()}
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
    """Return the shell command that writes a text to a file, with exactly one line break at its end."""
    end = "END_OF_FILE"
    while end in text.splitlines():
        end += "_"
    return f"cat > {shlex.quote(path)} <<'{end}'\n{text.rstrip(chr(10))}\n{end}\n"


def packed_tree(tree: Mapping[str, bytes]) -> bytes:
    """Return files as a reproducible `.tar.gz`."""
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
        env_id: Id of the environment.
        tasks: The tasks.
        out: The folder to write them to.
        image: Base image of their Dockerfiles, with bash and Python 3.11 or newer.

    Raises:
        UsageError: The environment or a task cannot be exported, or a folder exists.
    """
    if not isinstance(env, HasHarborFolders):
        raise UsageError(
            f"tasks of {env_id!r} cannot be written as Harbor folders: its class has no method harbor_folder "
            "(agentgym.tasks.exporting.HasHarborFolders); code, sql and swe have it"
        )
    return [write_folder(out, task, env_id, env.harbor_folder(task), image) for task in tasks]
