"""An evaluation of 200,000 episodes: killed near its end, continued, scored again, compared and looked at.

    python -m benchmarks.resume_200k

Everything runs as the commands that users type, each in a process of its own, on 20,000 tasks with 10 attempts each and
on a quarter of the tasks. Measured are seconds, seconds of processor time, and peak memory of each. `view` is started
with the index that the evaluation has left, without one, and with grades; its rows are in the page once the page's
request for them is answered.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks._report import Claim, write

AGENTGYM = (sys.executable, "-m", "agentgym")
ENV, POLICY = "benchmarks._many_tasks:Doors", "benchmarks._many_tasks:Listener"
_ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Size:
    """How much is played, and when the evaluation is killed."""

    tasks: int
    attempts: int
    kill_at: float = 0.97
    """Share of the episodes that are recorded by then."""

    @property
    def episodes(self) -> int:
        return self.tasks * self.attempts


class Evaluation:
    """One evaluation, as a command that is repeated."""

    def __init__(self, folder: Path, size: Size):
        self.out, self.size = folder / "results", size
        self.out.mkdir()
        what = ("--env", ENV, "--policy", POLICY, "--tasks", "test", "-n", str(size.tasks), "-k", str(size.attempts))
        self.command = (*AGENTGYM, "eval", *what, "--out", str(self.out))

    @property
    def file(self) -> Path:
        [file] = (self.out / "trajectories").glob("*.jsonl")
        return file

    def kill(self) -> int:
        """Play until most is recorded, kill the process, and return the number of recorded episodes."""
        child = _start(self.command)
        wanted = int(self.size.kill_at * self.size.episodes)
        try:
            for lines in _growing(self.out / "trajectories"):
                if lines >= wanted:
                    break
                if child.poll() is not None:
                    raise SystemExit("the evaluation had ended before it was killed")
        finally:
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
        return self.file.read_bytes().count(b"\n")

    def twice(self) -> int:
        """Return how many recorded episodes are there more than once, or too many."""
        with self.file.open(encoding="utf-8") as lines:
            ids = Counter(re.search('"id": "([^"]*)"', line)[1] for line in lines)  # pyright: ignore[reportOptionalSubscript]
        return ids.total() - len(ids) + abs(len(ids) - self.size.episodes)


def _growing(folder: Path) -> Iterator[int]:
    """Yield the number of lines in the only file of a folder, again and again, and read only what is new."""
    count = at = 0
    while True:
        time.sleep(0.01)
        for file in folder.glob("*.jsonl"):
            with file.open("rb") as read:
                read.seek(at)
                count += (new := read.read()).count(b"\n")
                at += len(new)
        yield count


def _start(command: Sequence[str], stdout: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    return subprocess.Popen(command, cwd=_ROOT, stdout=stdout, stderr=subprocess.DEVNULL, text=True)


def measured(name: str, *command: str) -> dict[str, Any]:
    """Run a command; return its seconds and its peak memory."""
    started = time.perf_counter()
    child = _start(command)
    peak = 0.0
    while True:
        peak = max(peak, _peak_mb(child.pid))
        time.sleep(0.01)
        ended, status, usage = os.wait4(child.pid, os.WNOHANG)
        if ended:
            break
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{name} exited with {child.returncode}: {' '.join(command)}")
    return _row(name, time.perf_counter() - started, usage.ru_utime + usage.ru_stime, peak)


def _peak_mb(pid: int) -> float:
    """Return a process's peak memory. `ru_maxrss` would also count the process that it was forked from."""
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc", str(pid), "status").read_text())
    return int(peak[1]) / 1024 if peak else 0.0


def viewed(name: str, file: Path) -> dict[str, Any]:
    """Start the viewer and ask for the rows that its page shows; return seconds until then and peak memory."""
    started = time.perf_counter()
    with _viewer(file) as (pid, url):
        listening = time.perf_counter() - started
        request = urllib.request.Request(f"{url}/api/rows", headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(request) as answer:
            head = json.loads(gzip.decompress(answer.read()))
        rows = time.perf_counter() - started
        if not head["columns"]:
            raise SystemExit(f"{name} shows no rows")
        times = psutil.Process(pid).cpu_times()
        peak = _peak_mb(pid)
    return {**_row(name, rows, times.user + times.system, peak), "listening_s": round(listening, 2)}


@contextmanager
def _viewer(file: Path) -> Iterator[tuple[int, str]]:
    with _start((*AGENTGYM, "view", str(file)), subprocess.PIPE) as child:
        try:
            found = next((line for line in child.stdout or () if line.startswith("Listening on ")), None)
            if found is None:
                raise SystemExit("the viewer did not start")
            yield child.pid, found.split()[-1].rstrip("/")
        finally:
            child.terminate()


def _row(name: str, seconds: float, cpu_seconds: float, megabytes: float) -> dict[str, Any]:
    row = {
        "step": name,
        "seconds": round(seconds, 2),
        "cpu_s": round(cpu_seconds, 2),
        "peak_mb": round(megabytes, 1),
    }
    print(json.dumps(row), file=sys.stderr)
    return row


def other_run(file: Path) -> Path:
    """Write the same episodes beside them as those of another policy, of which every seventh earned nothing."""
    other = file.parent.parent.parent / "other.jsonl"
    with file.open(encoding="utf-8") as lines, other.open("w", encoding="utf-8") as out:
        for number, line in enumerate(lines):
            changed = line.replace('"policy": "listener"', '"policy": "other"')
            out.write(changed.replace('"outcome": 1.0', '"outcome": 0.0') if number % 7 == 0 else changed)
    return other


def run(folder: Path, size: Size) -> list[dict[str, Any]]:
    """Measure everything on one evaluation."""
    evaluation = Evaluation(folder, size)
    recorded = evaluation.kill()
    resumed = measured("resume", *evaluation.command)
    rows = [
        {**resumed, "recorded": recorded, "played": size.episodes - recorded, "twice": evaluation.twice()},
        measured("resume with nothing left", *evaluation.command),
    ]
    file = evaluation.file
    rows.append(viewed("view", file))
    file.with_name(f"{file.name}.index").unlink(missing_ok=True)
    rows.append(viewed("view without an index", file))
    rows.append(measured("compare", *AGENTGYM, "compare", str(file), str(other_run(file))))
    rows.append(measured("rescore", *AGENTGYM, "eval", "--rescore", str(file), "--trust-file"))
    rows.append(viewed("view with grades", file))
    return [{"episodes": size.episodes, **row} for row in rows]


def claims(rows: Sequence[dict[str, Any]]) -> list[Claim]:
    """Return what the rows of two sizes show, the smaller one first."""
    few, many = min(row["episodes"] for row in rows), max(row["episodes"] for row in rows)
    found = [Claim("episodes_played_twice", sum(row.get("twice", 0) for row in rows), "<=", 0)]
    at = {(row["episodes"], row["step"]): row for row in rows}
    for step in dict.fromkeys(row["step"] for row in rows):
        slug = step.replace(" ", "_")
        found.append(Claim(f"{slug}_peak_mb", at[many, step]["peak_mb"], "<=", 1000))
        if few < many:
            growth = at[many, step]["cpu_s"] / at[few, step]["cpu_s"] / (many / few)
            found.append(Claim(f"{slug}_cpu_s_per_episode_against_a_quarter", round(growth, 2), "<=", 1.2))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--attempts", type=int, default=10)
    parser.add_argument("--folder", help="where to work; by default a temporary one (2 GB)")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for tasks in (options.tasks // 4, options.tasks):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            rows += run(Path(folder), Size(tasks, options.attempts))
    write("resume_200k", rows, claims(rows))


if __name__ == "__main__":
    main()
