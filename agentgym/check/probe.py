"""Fresh interpreters for the checks that need one: started once, run in parallel, and searched for leftovers."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gymnasium.envs.registration import EnvSpec

from agentgym.base.interpreters import command_of
from agentgym.check.outcomes import CheckFailed
from agentgym.check.play import CheckedEpisode

START_S = 100.0
SLOWER = 20.0
"""Factor by which an episode may take longer in a probe, which shares the machine and rebuilds all shared state."""
ENDING_S = 8.0
"""Seconds to wait for processes and resources that are shutting down."""

_MARK = "AGENTGYM_PROBE"
"""Environment variable that marks every process started by a probe."""

JOBS_BY_HASH_SEED = {"1": ("surroundings", "leftovers", "traces"), "2": ("traces", "unpickled", "vector_async")}
"""The jobs of each process, by hash seed. The first one starts before anything of the environment is imported."""

JOBS = frozenset(job for jobs in JOBS_BY_HASH_SEED.values() for job in jobs)
"""The names of all jobs."""


Process = tuple[dict[str, str], str]
"""Environment variables and working directory that a process starts with."""


@dataclass(frozen=True)
class ProbeRequest:
    """The input of a fresh interpreter's jobs."""

    target: str
    kwargs: dict[str, Any]
    spec: EnvSpec
    seed: int
    episodes: list[CheckedEpisode]
    stumbled: list[CheckedEpisode]
    """Episodes of the stumbling player."""
    pickled: bytes | None
    """An environment, pickled before its first reset."""


@dataclass
class Surroundings:
    """How episodes depend on their process and affect it, as a fresh interpreter found."""

    by_clock: str | None = None
    """The first difference on another day, where it occurred, and the lines that read the clock."""
    clock: list[str] = field(default_factory=list)
    """Lines that read the clock in the first episodes."""
    by_history: str | None = None
    """The difference after other episodes, and the shared state that changed in between."""
    chance: list[str] = field(default_factory=list)
    """Lines that draw from the system's randomness or read a timer; collected only if something varies."""
    changes: dict[str, dict[str, str]] = field(default_factory=dict)
    """Changes to the process, by the name of the changed state: each a `StateChange` as data."""
    episodes: int = 0
    """Number of episodes watched."""


class ProbeProcess:
    """A fresh interpreter with its own hash seed that runs some jobs; it is killed after `patience_s` seconds.

    It starts with the environment variables and working directory of `process`.
    """

    def __init__(
        self,
        request: ProbeRequest,
        process: Process,
        hash_seed: str,
        jobs: Sequence[str],
        patience_s: float,
    ):
        variables, folder = process
        self.jobs = tuple(jobs)
        self._folder = tempfile.TemporaryDirectory(prefix="agentgym-probe-", ignore_cleanup_errors=True)
        root = Path(self._folder.name)
        self._results, self._errors, self._temp = root / "results", root / "errors", root / "tmp"
        self._temp.mkdir()
        (root / "request").write_bytes(pickle.dumps(request))
        paths = [os.path.join(folder, entry) for entry in sys.path]
        environment = {
            **variables,
            "PYTHONHASHSEED": hash_seed,
            "TMPDIR": str(self._temp),
            _MARK: root.name,
        }
        command = command_of(
            "agentgym.check.probe_child", str(root / "request"), str(self._results), *jobs, paths=paths
        )
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                command,
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )
        self._deadline = time.monotonic() + patience_s
        self._mark = root.name
        self._found: dict[str, dict[str, Any]] | None = None
        self.left: list[str] = []
        """Processes and files that outlived the process; filled by `results`."""

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """Each job's result, once the process has exited; any processes that survive it are killed."""
        if self._found is None:  # not a `cached_property`: Python 3.11 has one lock for all instances
            self._found = self._wait()
        return self._found

    def _wait(self) -> dict[str, dict[str, Any]]:
        try:
            self._process.wait(max(0.1, self._deadline - time.monotonic()))
            self.left = self._end_survivors()
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._end_survivors()
        text = self._results.read_text(encoding="utf-8") if self._results.exists() else ""
        return {line["job"]: line for line in map(json.loads, text.splitlines())}

    @property
    def last_words(self) -> str:
        """The last line written by the process or one of its children."""
        lines = self._errors.read_text(errors="replace").splitlines() if self._errors.exists() else []
        return next((line for line in reversed(lines) if line.strip()), "nothing")

    def close(self) -> None:
        """Kill the process if it still runs, and remove its folder."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._folder.cleanup()

    def _end_survivors(self) -> list[str]:
        """Kill the processes that outlived the probe; return descriptions of them and of leftover files."""
        patience = time.monotonic() + ENDING_S
        while (alive := marked_processes(self._mark)) and time.monotonic() < patience:
            time.sleep(0.05)
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        leftovers = [f"process {pid} still runs" for pid in alive]
        files = sorted(path.name for path in self._temp.iterdir())
        if files:
            leftovers.append(f"{len(files)} temporary files or folders are still there: {', '.join(files[:3])}")
        return leftovers


class Probes:
    """The probes of one subject: those for `jobs` start immediately, others when `values` needs them.

    Each may take `least_s` seconds, and longer if its episodes are slow.
    """

    def __init__(self, request: ProbeRequest, process: Process, jobs: Collection[str], least_s: float):
        self._lock = threading.Lock()
        self._request, self._process = request, process
        self._patience_s = max(least_s, patience_s([*request.episodes, *request.stumbled]))
        self._probes = self._started(jobs)

    def _started(self, jobs: Collection[str]) -> list[ProbeProcess]:
        jobs_by_seed = {seed: [job for job in own if job in jobs] for seed, own in JOBS_BY_HASH_SEED.items()}
        return [
            ProbeProcess(self._request, self._process, seed, own, self._patience_s)
            for seed, own in jobs_by_seed.items()
            if own
        ]

    def values(self, job: str) -> list[Any]:
        """Return the job's value from every probe that runs it. Raises `CheckFailed` if one of them failed."""
        with self._lock:
            if not any(job in probe.jobs for probe in self._probes):
                self._probes += self._started({job})
            return [self._value(probe, job) for probe in self._probes if job in probe.jobs]

    def _value(self, probe: ProbeProcess, job: str) -> Any:
        result = probe.results.get(job)
        if result is None:
            raise CheckFailed(
                f"in a fresh process, no result came within {self._patience_s:.0f} s; "
                f"its last output: {probe.last_words}"
            )
        if (failed := result.get("failed")) is not None:
            words = f"; last words: {probe.last_words}" if result.get("died") else ""
            raise CheckFailed(f"in a fresh process: {failed}{words}")
        return result.get("value")

    @property
    def left(self) -> list[str]:
        """Processes and files that outlived the probes, as far as their results were read."""
        return [leftover for probe in self._probes for leftover in probe.left]

    def close(self) -> None:
        """Kill the processes that still run, and remove their folders."""
        for probe in self._probes:
            probe.close()


def patience_s(episodes: Sequence[CheckedEpisode]) -> float:
    """Return the seconds that a probe may take to start and to replay these episodes."""
    return START_S + SLOWER * sum(episode.seconds for episode in episodes)


def marked_processes(mark: str) -> list[int]:
    """Return the ids of processes that carry a probe's mark; an empty list on systems without `/proc`."""
    needle = f"{_MARK}={mark}".encode()
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if needle in (entry / "environ").read_bytes().split(b"\0"):
                pids.append(int(entry.name))
        except OSError:
            continue
    return pids
