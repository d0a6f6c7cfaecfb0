"""Run tests in scratch copies of this tree, with one changed file at a time."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

ROOT = Path(__file__).parent.parent
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info", "build", "dist", "runs"
)

_LOADED_BEFORE = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"


class Outcome(StrEnum):
    """The outcome of the tests of a changed file."""

    SURVIVED = "survived"
    KILLED = "killed"
    TIMEOUT = "timeout"


@dataclass(frozen=True)
class Run:
    """The result of one run of some tests."""

    outcome: Outcome
    seconds: float
    output: str


class Copies:
    """Scratch copies of the tree, one per parallel job. A context manager; the copies are deleted at its end."""

    def __init__(self, count: int):
        self._count = count
        self._copies: list[_Copy] = []
        self._free: queue.SimpleQueue[_Copy] = queue.SimpleQueue()

    def __enter__(self) -> Copies:
        self._folder = tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True)
        for number in range(self._count):
            self._copies.append(_Copy(Path(self._folder.name, str(number))))
            self._free.put(self._copies[-1])
        return self

    def __exit__(self, *_: object) -> None:
        for copy in self._copies:
            copy.close()
        self._folder.cleanup()

    def test(self, tests: Sequence[str], timeout_s: float, changed: tuple[str, str] | None = None) -> Run:
        """Run tests up to the first failure, in a copy where one file is changed.

        Args:
            tests: Files of tests.
            timeout_s: Wall-clock seconds.
            changed: Name and content of the file.
        """
        copy = self._free.get()
        try:
            with copy.changed(*changed) if changed else nullcontext():
                return copy.test(tests, timeout_s)
        finally:
            self._free.put(copy)


class _Copy:
    """One copy of the tree, and the process that runs tests in it."""

    def __init__(self, folder: Path):
        shutil.copytree(ROOT, folder, symlinks=True, ignore=_LEFT_OUT)
        self._folder, self._output = folder, folder.with_suffix(".txt")
        self._clock = int(time.time())
        path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
        # Let Python cache compiled tests.
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self._nursery = subprocess.Popen(
            [sys.executable, "benchmarks/_mutant_nursery.py"],
            cwd=folder,
            env={**inherited, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "TRL_EXPERIMENTAL_SILENCE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def close(self) -> None:
        self._nursery.communicate()

    def test(self, tests: Sequence[str], timeout_s: float) -> Run:
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        arguments = ["-x", "-q", "-p", "no:cacheprovider", "-W", _LOADED_BEFORE, *tests]
        job = {"arguments": arguments, "timeout_s": timeout_s, "output": str(self._output)}
        began = time.perf_counter()
        print(json.dumps(job), file=self._nursery.stdin, flush=True)
        status = json.loads(self._nursery.stdout.readline())
        outcome = Outcome.TIMEOUT if status is None else Outcome.KILLED if status else Outcome.SURVIVED
        return Run(outcome, time.perf_counter() - began, self._output.read_text(encoding="utf-8", errors="replace"))

    @contextmanager
    def changed(self, file: str, content: str) -> Iterator[None]:
        """Replace a file's content inside the `with` block."""
        path = self._folder / file
        was = path.read_text(encoding="utf-8")
        try:
            self._write(path, content)
            yield
        finally:
            self._write(path, was)

    def _write(self, path: Path, content: str) -> None:
        path.write_text(content, encoding="utf-8")
        # Python reuses compiled code for a file with the same size and modification second.
        self._clock += 2
        os.utime(path, (self._clock, self._clock))
