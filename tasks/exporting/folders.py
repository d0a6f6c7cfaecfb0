"""What a task becomes as a Harbor task folder, and how an environment says so."""

from __future__ import annotations

import gzip
import io
import json
import re
import shlex
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from agentgym.errors import UsageError
from agentgym.task import Task
from agentgym.tasks.exporting.modules import module_files

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
