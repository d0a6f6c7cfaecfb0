"""Provenance of results: the commands that wrote a file or folder, with their times, versions, machine and seeds.

The record of one file is next to it (`eval.jsonl.run`); a folder has one for all its files (`run.json`).
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

from agentgym import __version__
from agentgym.base.errors import UsageError

SCHEMA_VERSION = 1
RUN = "run.json"
"""Name of the record in a folder."""
_PACKAGES = ("gymnasium", "numpy", "duckdb", "torch", "transformers", "trl", "vllm", "playwright", "tantivy", "docker")
_SECRET = re.compile(r"--?(?:[\w-]*[_-])?(?:key|token|secret|password)", re.IGNORECASE)
"""Options whose value is a secret."""
_is_recorded: ContextVar[bool] = ContextVar("is_recorded", default=False)
"""Whether a folder's record describes the current work, so that its files need none of their own."""


def provenance(command: Sequence[str] | None = None, **facts: Any) -> dict[str, Any]:
    """Return the command, the time, the versions of relevant packages and the machine, as JSON data.

    Args:
        command: The words of the command; by default those of this process.
        facts: More fields, such as `seed`.
    """
    return {
        "command": shlex.join(_masked(_own_command() if command is None else command)),
        "started": _now(),
        **facts,
        "agentgym": __version__,
        "python": platform.python_version(),
        "packages": {name: version for name in _PACKAGES if (version := _version(name)) is not None},
        "machine": {"system": platform.platform(), "cpu": cpu(), "cores": os.cpu_count(), "gpu": _gpu()},
    }


def record_of(path: Path) -> Path:
    """Return the file that records the provenance of a file or folder of results."""
    return path / RUN if path.is_dir() else path.with_name(f"{path.name}.run")


def runs_in(record: Path) -> list[dict[str, Any]]:
    """Return the recorded commands, oldest first; none if the results are from before they were recorded.

    Raises:
        UsageError: The record cannot be read.
    """
    if not record.is_file():
        return []
    try:
        runs = json.loads(record.read_text(encoding="utf-8"))["runs"]
        if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
            raise ValueError("'runs' is not a list of objects")
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UsageError(f"{record} is not a record of runs: {error}; remove it to start a new one") from error
    return runs


@contextmanager
def recorded(path: Path, **facts: Any) -> Iterator[None]:
    """Add this command to the record of a file or folder of results when work on it begins, and its end afterwards.

    Within a folder's record, its files get none of their own.

    Args:
        path: The file or folder; the caller holds its lock.
        facts: More fields, such as `seed`.

    Raises:
        UsageError: An earlier record cannot be read, or this one cannot be written.
    """
    if _is_recorded.get():
        yield
        return
    record = record_of(path)
    run = provenance(**facts)
    runs = [*runs_in(record), run]
    _write(record, runs)
    token = _is_recorded.set(path.is_dir())
    try:
        yield
    finally:
        _is_recorded.reset(token)
        run["ended"] = _now()
        _write(record, runs)


def _write(record: Path, runs: Sequence[Mapping[str, Any]]) -> None:
    write_json(record, {"schema": SCHEMA_VERSION, "runs": runs})


def write_json(target: Path, content: Mapping[str, Any]) -> None:
    """Write a file of JSON atomically, so that neither a reader nor a crash leaves half of it."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        unfinished.replace(target)
    except OSError as error:
        raise UsageError(f"cannot write {str(target)!r}: {error.strerror or error}") from error


def _own_command() -> list[str]:
    """Return the words of this process's command: `agentgym` and its arguments, or a program's own."""
    name = Path(sys.argv[0]).name
    return ["agentgym" if name in ("agentgym", "__main__.py") else name, *sys.argv[1:]]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _masked(words: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command without secrets, including those after options such as `--api-key`."""
    for before, word in pairwise(["", *words]):
        yield "***" if _SECRET.fullmatch(before) else _without_secrets(word)


def _without_secrets(word: str) -> str:
    """Return a word of a command without passwords in URLs, HTTP headers, and keys in place of variable names."""
    name, equals, value = word.partition("=")
    if _SECRET.fullmatch(name) and equals:
        return f"{name}=***"
    if name.startswith("--") and equals:
        return f"{name}={_without_secrets(value)}"
    if name == "headers" or (name == "key" and not value.isidentifier()):
        return f"{name}{equals}***"
    without_password = re.sub(r"://[^/\s]*@", "://***@", word)
    return re.sub(r"(\?)[^\s?]*$", r"\1***", without_password) if "://" in word else without_password


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def cpu() -> str:
    """Return the name of the processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor()


def _gpu() -> str | None:
    """Return the name of the first GPU, if torch is already imported."""
    torch = sys.modules.get("torch")
    return torch.cuda.get_device_name(0) if torch is not None and torch.cuda.is_available() else None
