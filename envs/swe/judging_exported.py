"""Judges an exported task of the SWE environment, where nothing but Python is installed."""

from __future__ import annotations

import compileall
import io
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any

from agentgym.core.task import Task
from agentgym.envs.swe import judge
from agentgym.envs.swe.grading import SWEGrader
from agentgym.envs.swe.repository import Repository
from agentgym.envs.swe.sandboxes_exported import Sandboxes
from agentgym.tasks.exporting.inside.answers import read_files
from agentgym.tasks.swe import pytest_folder
from agentgym.tasks.swe.instance import Instance

_MAX_BYTES = 256_000_000
_RARELY_USED = ("pygments",)


def prepare(task: Task, given: Mapping[str, Any], folder: Path) -> Callable[[Path], Mapping[str, float]]:
    """Return a function that grades the repository below a root."""
    judge.load_texts()
    # Here, `pytest_exported` stands in for it.
    pytest_folder.use(_unpacked(folder / "pytest.tar.gz"))  # pyright: ignore[reportAttributeAccessIssue]
    repository = Repository(Instance.from_dict(given["instance"]), _read(folder / "repository.tar.gz"))
    # Type checkers see the sandboxes that these stand in for here.
    grader = SWEGrader(Sandboxes())  # pyright: ignore[reportArgumentType]
    return lambda root: _rewards(grader, repository, read_files(root / "app", _MAX_BYTES))


def _rewards(grader: SWEGrader, repository: Repository, worked: Mapping[str, bytes]) -> Mapping[str, float]:
    verdict = grader.grade(repository, worked)
    return {"reward": float(verdict.passed), "mended": verdict.mended}


def _unpacked(archive: Path) -> Path:
    """Unpack pytest into a folder that the test processes can read."""
    folder = Path(tempfile.mkdtemp())
    with tarfile.open(archive) as packed:
        packed.extractall(folder)
    # Compiled once, instead of by each of the processes that run tests.
    for part in folder.iterdir():
        if part.name not in _RARELY_USED:
            compileall.compile_dir(part, quiet=2, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    folder.chmod(0o755)
    return folder


def _read(archive: Path) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as packed:
        files = {entry.name: packed.extractfile(entry) for entry in packed.getmembers()}
        return {name: file.read() for name, file in files.items() if file is not None}
