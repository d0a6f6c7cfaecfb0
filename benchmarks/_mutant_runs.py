"""Runs tests in scratch copies of this tree, with one file of a copy changed at a time; the tree stays as it is."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

ROOT = Path(__file__).parent.parent
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info", "build", "dist", "runs"
)
_MEMORY = 8 * 2**30
"""Bytes of data that the tests of one mutant may allocate: a loop that has lost its end may also fill lists."""

_START = """
import resource, sys
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


class Outcome(StrEnum):
    """How the tests of a changed file ended."""

    SURVIVED = "survived"
    KILLED = "killed"
    TIMEOUT = "timeout"


@dataclass(frozen=True)
class Run:
    """What came of one run of some tests."""

    outcome: Outcome
    seconds: float
    said: str


class Copies:
    """Scratch copies of the tree: as many as jobs run at the same time. A context manager; they go with it."""

    def __init__(self, count: int):
        self._count = count
        self._free: queue.SimpleQueue[Path] = queue.SimpleQueue()
        self._clock = int(time.time())

    def __enter__(self) -> Copies:
        self._folder = tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True)
        for number in range(self._count):
            copy = Path(self._folder.name, str(number))
            shutil.copytree(ROOT, copy, symlinks=True, ignore=_LEFT_OUT)
            self._free.put(copy)
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def test(self, tests: Sequence[str], timeout_s: float, changed: tuple[str, str] | None = None) -> Run:
        """Run tests, up to the first that fails, in a copy in which one file has another content.

        Args:
            tests: Files of tests.
            timeout_s: Wall-clock seconds.
            changed: Name and content of the file.
        """
        copy = self._free.get()
        try:
            with self._with(copy, changed):
                return _pytest(copy, tests, timeout_s)
        finally:
            self._free.put(copy)

    @contextmanager
    def _with(self, copy: Path, changed: tuple[str, str] | None) -> Iterator[None]:
        if changed is None:
            yield
            return
        path, content = copy / changed[0], changed[1]
        was = path.read_text(encoding="utf-8")
        try:
            self._write(path, content)
            yield
        finally:
            self._write(path, was)

    def _write(self, path: Path, content: str) -> None:
        path.write_text(content, encoding="utf-8")
        # Python takes compiled code for that of a file of the same size and second.
        self._clock += 2
        os.utime(path, (self._clock, self._clock))


def _pytest(copy: Path, tests: Sequence[str], timeout_s: float) -> Run:
    path = os.pathsep.join(filter(None, [str(copy), os.environ.get("PYTHONPATH")]))
    began = time.perf_counter()
    # Into a file: processes that outlive the tests would keep a pipe open.
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-c", _START, str(_MEMORY), "-x", "-q", "-p", "no:cacheprovider", *tests],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            outcome = Outcome.KILLED if process.wait(timeout_s) else Outcome.SURVIVED
        except subprocess.TimeoutExpired:
            outcome = Outcome.TIMEOUT
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said.seek(0)
        return Run(outcome, time.perf_counter() - began, said.read().decode(errors="replace"))
