"""How the builder runs a package's tests: the protocol, the results, and a plain runner without a sandbox."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from agentgym.base.errors import InfrastructureError, UsageError

_CHILD = Path(__file__).with_name("child.py")
_MAX_RECORDS_BYTES = 256 * 2**20


class RunError(StrEnum):
    """Why a run has no result for every test."""

    TIMEOUT = "timeout"
    COLLECTION = "collection"
    CRASH = "crash"


@dataclass(frozen=True)
class Conditions:
    """Conditions of a run; no test should depend on them."""

    hash_seed: int = 0
    """Seed of Python's hashes, which decides the order of sets of strings."""
    backwards: bool = False
    """Run the tests in reverse order."""
    leap: int | None = None
    """Make the clocks jump ahead whenever they are read; the number of the first jump."""

    def request(self) -> dict[str, Any]:
        """Return the part that `child` needs; the rest goes into the interpreter's environment."""
        return {"backwards": self.backwards, "leap": self.leap}


USUAL = Conditions()


@dataclass(frozen=True)
class Failure:
    """Why one test failed."""

    exception: str
    """Name of the exception's class."""
    message: str
    compared: tuple[str, str, str] | None = None
    """Left side, operator and right side of the assertion that failed."""
    frames: tuple[tuple[str, str, int], ...] = ()
    """Path, function and line of each frame within the tree, outermost first."""
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TestOutcome:
    """The result of a run of tests."""

    __test__ = False

    statuses: Mapping[str, str]
    """Test id to `passed`, `failed`, `error`, `skipped`, `xfailed` or `xpassed`."""
    error: RunError | None = None
    detail: str = ""
    duration_s: float = 0.0
    failures: Mapping[str, Failure] = field(default_factory=dict)
    ran: Mapping[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    """With `trace`: test id to the (path, qualified name) of the functions it ran; those run on import under ``""``."""
    durations: Mapping[str, float] = field(default_factory=dict)
    """Test id to its processor time in seconds."""
    wrote: Mapping[str, str] = field(default_factory=dict)
    """With `trace`: tests that changed the tree, and a path that they changed."""

    @property
    def failing(self) -> frozenset[str]:
        """The tests that failed or had an error."""
        return frozenset(test for test, status in self.statuses.items() if status in ("failed", "error"))

    @property
    def passing(self) -> frozenset[str]:
        """The tests that passed."""
        return frozenset(test for test, status in self.statuses.items() if status == "passed")


class TestRunner(Protocol):
    """Runs tests of a tree of files in an environment of its own."""

    def __call__(
        self,
        tree: Mapping[str, bytes],
        tests: Sequence[str],
        *,
        python_path: Sequence[str] = (".",),
        timeout_s: float = 60.0,
        max_failures: int | None = None,
        trace: bool = False,
        conditions: Conditions = USUAL,
    ) -> TestOutcome:
        """Run tests (files or ids, in this order) and return the outcome of each.

        Args:
            tree: All files by POSIX path.
            tests: Paths of test files, or pytest node ids.
            python_path: Folders to import from, relative to the root.
            timeout_s: Seconds until the run is stopped with the error `timeout`.
            max_failures: The run may stop after this many failures.
            trace: Report which functions each test ran and what it wrote. A runner may ignore this.
            conditions: Conditions that vary between runs.
        """
        ...


class SubprocessRunner:
    """Runs tests in a plain process, with the permissions of its user.

    WARNING: this trusts the package. Its code and its tests can read and write whatever you can. Use it for your own
    packages and for ones that you would install; use a sandboxed runner for anything else.

    Args:
        python: Interpreter with pytest and without the package; the running one if not given.
        memory_mb: Address space that a run may use.
    """

    def __init__(self, python: str | None = None, *, memory_mb: int = 4096):
        self._python = python or sys.executable
        self._memory_mb = memory_mb

    def __call__(
        self,
        tree: Mapping[str, bytes],
        tests: Sequence[str],
        *,
        python_path: Sequence[str] = (".",),
        timeout_s: float = 60.0,
        max_failures: int | None = None,
        trace: bool = False,
        conditions: Conditions = USUAL,
    ) -> TestOutcome:
        """Run tests; see `TestRunner`."""
        with tempfile.TemporaryDirectory(prefix="agentgym-build-") as folder:
            root = Path(folder).resolve() / "tree"
            write_tree(root, tree)
            request = {
                "root": str(root), "tests": list(tests), "python_path": list(python_path), "trace": trace,
                "max_failures": max_failures or 0, "memory_mb": self._memory_mb, **conditions.request(),
            }  # fmt: skip
            started = time.monotonic()
            lines, complete, printed = self._run(request, folder, timeout_s, conditions.hash_seed)
            return outcome_of(lines, complete, printed, time.monotonic() - started)

    def _run(
        self, request: dict[str, Any], folder: str, timeout_s: float, hash_seed: int
    ) -> tuple[list[str], bool, str]:
        """Return the records, whether the process ended by itself, and the end of its output."""
        read_end, write_end = os.pipe()
        printed = Path(folder, "printed")
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8",
                       "TZ": "UTC", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": str(hash_seed)}  # fmt: skip
        command = [self._python, "-P", str(_CHILD), str(write_end), json.dumps(request)]
        records: list[bytes] = []
        try:
            with printed.open("wb") as output, os.fdopen(read_end, "rb") as reader:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment,
                    cwd=folder, pass_fds=(write_end,), start_new_session=True,
                )  # fmt: skip
                os.close(write_end)
                collector = threading.Thread(target=lambda: records.append(reader.read(_MAX_RECORDS_BYTES)))
                collector.start()
                complete = _wait(process, timeout_s)
                collector.join()
        except OSError as error:
            raise InfrastructureError(f"cannot run {self._python!r}: {error}") from error
        tail = printed.read_bytes()[-2000:].decode("utf-8", "replace")
        if b"No module named pytest" in printed.read_bytes():
            raise UsageError(f"{self._python!r} has no pytest; install it there or name another interpreter")
        return b"".join(records).decode("utf-8", "replace").splitlines(), complete, tail


def write_tree(root: Path, tree: Mapping[str, bytes]) -> None:
    """Write files below `root`. Raises `UsageError` for a path that leads out of it."""
    for name, content in tree.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise UsageError(f"a tree cannot hold a file named {name!r}")
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Wait for the process, then kill whatever it left behind. Returns whether it ended by itself."""
    try:
        process.wait(timeout_s)
        return True
    except subprocess.TimeoutExpired:
        return False
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def outcome_of(lines: list[str], complete: bool, printed: str, duration_s: float) -> TestOutcome:
    """Return the outcome of a run from the lines of the reporter in `child`."""
    statuses: dict[str, str] = {}
    failures: dict[str, Failure] = {}
    ran: dict[str, frozenset[tuple[str, str]]] = {}
    durations: dict[str, float] = {}
    wrote: dict[str, str] = {}
    error: RunError | None = RunError.CRASH
    uncollected = ""
    for line in lines:
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            break  # cut off when the process was killed
        if "test" in record:
            test = record["test"]
            statuses[test], durations[test] = record["status"], record["took"]
            if record["wrote"]:
                wrote[test] = record["wrote"]
        elif "failed" in record:
            failures.setdefault(record["failed"], _failure(record))
        elif "ran" in record:
            ran[record["by"]] = frozenset((path, name) for path, name in record["ran"])
        elif "uncollected" in record:
            uncollected += f"{record['uncollected']}: {record['text']}\n"
        elif "exit" in record:
            # 0 all passed, 1 some failed, 2 interrupted (failures or errors reached their limit), 5 no tests.
            error = None if record["exit"] in (0, 1, 2) and statuses else RunError.COLLECTION
    if not complete:
        error = RunError.TIMEOUT
    detail = uncollected or (printed if error else "")
    return TestOutcome(statuses, error, detail, duration_s, failures, ran, durations, wrote)


def _failure(record: Mapping[str, Any]) -> Failure:
    compared = record["compared"]
    return Failure(
        exception=record["exception"],
        message=record["message"],
        compared=tuple(compared) if compared else None,  # type: ignore[arg-type]
        frames=tuple((path, name, line) for path, name, line in record["frames"]),
        parameters=record["parameters"],
    )
