"""Writes a Harbor task folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.errors import UsageError
from agentgym.task import Task

_LEVELS = {1: "easy", 2: "easy", 3: "medium"}
_SCHEMA = "1.4"


@dataclass(frozen=True)
class Written:
    """What a task becomes."""

    instruction: str
    dockerfile: str
    solve: str
    tests: Mapping[str, str]
    """Files by path; `test.sh` is run, and writes the reward."""
    context: Mapping[str, str] = field(default_factory=dict)
    """Files that the Dockerfile copies, by path."""
    timeout_s: float = 300.0
    """Seconds for the tests."""


def write_folder(out: Path, task: Task, env_id: str, written: Written) -> Path:
    """Write a task into a new folder below `out` and return it.

    Raises:
        UsageError: The folder exists.
    """
    folder = out / re.sub(r"[^A-Za-z0-9._-]+", "-", task.id).strip("-.")
    if folder.exists():
        raise UsageError(f"{folder} exists; remove it, or choose another folder")
    files = {
        "task.toml": _config(task, env_id, folder.name, written.timeout_s),
        "instruction.md": written.instruction.rstrip() + "\n",
        "environment/Dockerfile": written.dockerfile,
        "solution/solve.sh": written.solve,
        **{f"environment/{path}": text for path, text in written.context.items()},
        **{f"tests/{path}": text for path, text in written.tests.items()},
    }
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        if path.endswith(".sh"):
            place.chmod(0o755)
    return folder


def here_document(path: str, text: str) -> str:
    """Return the shell command that writes a text to a file, byte for byte but for a newline at its end."""
    end = "END_OF_FILE"
    while end in text.splitlines():
        end += "_"
    return f"cat > {path} <<'{end}'\n{text.rstrip(chr(10))}\n{end}\n"


def _config(task: Task, env_id: str, name: str, timeout_s: float) -> str:
    values = {
        "difficulty": _LEVELS.get(task.difficulty, "hard"),
        "tags": list(task.tags),
        "environment": env_id,
        "task": task.id,
        "hash": task.hash,
    }
    metadata = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
    return (
        f'schema_version = "{_SCHEMA}"\n\n[task]\nname = "agentgym/{name}"\n\n[metadata]\n{metadata}\n'
        f"[agent]\ntimeout_sec = 900.0\n\n[verifier]\ntimeout_sec = {timeout_s}\n\n"
        '[environment]\nnetwork_mode = "no-network"\ncpus = 1\nmemory_mb = 2048\n'
    )
