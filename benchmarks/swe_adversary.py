"""Code that cheats inside the process that grades it: how many of the bundled tasks it solves with nothing mended.

    python -m benchmarks.swe_adversary [--every N] [--payload NAME ...]
    python -m benchmarks.swe_adversary --before PATH     # time per grading too, beside another checkout's

Every payload (`_swe_payloads`) is appended to the package's `__init__.py` of each task, so that it sees all that one
process sees. With `--before`, gold solutions are graded in turns by this code and by that of the other checkout.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentgym.envs.swe.filtering import filtered
from agentgym.envs.swe.grading import Grader
from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.repository import Repository
from agentgym.envs.swe.sandboxes import Sandboxes
from agentgym.envs.swe.source import repository_of
from agentgym.task import Task, iterate
from agentgym.tasks.swe.bundled import BundledSWETasks
from benchmarks._report import Claim, write
from benchmarks._swe_payloads import PAYLOADS, STRONGEST, with_payload

SPLITS = ("train", "test")
LIMITS = WORK_LIMITS.but(wall_s=120.0, cpu_s=120.0)


def tasks() -> list[Task]:
    """Return the tasks, always in the same order."""
    source = BundledSWETasks()
    return [task for split in SPLITS for task in iterate(source, split)]


def repository(task: Task, sandboxes: Sandboxes) -> Repository:
    """Return a task's repository."""
    return repository_of(BundledSWETasks(), task, sandboxes)


def attacked(some: Sequence[Task], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield what grading says of each payload on each task."""
    sandboxes = Sandboxes("auto", False, WORK_LIMITS, LIMITS)
    grader = Grader(sandboxes)
    for task in some:
        found = repository(task, sandboxes)
        for name in names:
            worked = with_payload(found.files, PAYLOADS[name])
            verdict = grader.judge(found, filtered(found.files, worked, found.gold_paths))
            yield {
                "task": task.id, "payload": name, "solved": int(verdict.passed), "mended": round(verdict.mended, 3),
                "tampering_noticed": int(bool(verdict.tampered)), "unchanged": len(verdict.unchanged),
            }  # fmt: skip


def graded(numbers: Iterator[int]) -> Iterator[tuple[float, bool]]:
    """Yield the seconds that grading the solution of each numbered task took, and whether it passed."""
    sandboxes = Sandboxes("auto", False, WORK_LIMITS, LIMITS)
    grader = Grader(sandboxes)
    found = tasks()
    for number in numbers:
        one = repository(found[number], sandboxes)
        grader.calibrate(one)
        changes = filtered(one.files, one.gold, one.gold_paths)
        began = time.perf_counter()
        verdict = grader.judge(one, changes)
        yield time.perf_counter() - began, verdict.passed


def serve() -> None:
    """Grade the tasks whose numbers come in, for `timed` of another process."""
    for seconds, passed in graded(int(line) for line in sys.stdin):
        print(seconds, int(passed), flush=True)


@contextmanager
def peer(checkout: Path) -> Iterator[Any]:
    """Grade with the code of a checkout, in a process of its own."""
    program = f"import runpy; runpy.run_path({str(Path(__file__))!r})['serve']()"
    environment = {**os.environ, "PYTHONPATH": f"{checkout}{os.pathsep}{Path(__file__).parent.parent}"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield process
    finally:
        if process.stdin is not None:
            process.stdin.close()
        process.wait()


def asked(process: Any, number: int) -> tuple[float, bool]:
    """Return what a peer says of a task."""
    print(number, file=process.stdin, flush=True)
    seconds, passed = process.stdout.readline().split()
    return float(seconds), passed == "1"


def timed(before: Path, every: int) -> Iterator[dict[str, Any]]:
    """Yield the seconds per grading of gold solutions with the other checkout's code and with this one's."""
    with peer(before) as old, peer(Path(__file__).parent.parent) as new:
        for number, task in enumerate(tasks()):
            if number % every == 0:
                (before_s, _), (after_s, passed) = asked(old, number), asked(new, number)
                yield {
                    "task": task.id, "before_s": round(before_s, 3), "after_s": round(after_s, 3),
                    "ratio": round(after_s / before_s, 3), "solution_passed": int(passed),
                }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a checkout of other code, to compare the time per grading with")
    parser.add_argument("--every", type=int, default=1, help="take each so many tasks only")
    parser.add_argument("--payload", action="append", choices=tuple(PAYLOADS), help="take these, not the strongest")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    names = options.payload or list(STRONGEST)
    for row in attacked(tasks()[:: options.every], names):
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    solved = {name: sum(row["solved"] for row in rows if row["payload"] == name) for name in names}
    claims = [Claim("swe_adversary_solved", max(solved.values()), "<=", 1)]
    times = list(timed(options.before, options.every)) if options.before else []
    if times:
        before, after = (statistics.median(row[key] for row in times) for key in ("before_s", "after_s"))
        claims.append(Claim("swe_grading_time_ratio", round(after / before, 3), "<=", 2))
        claims.append(Claim("swe_solutions_passed", statistics.mean(row["solution_passed"] for row in times), ">=", 1))
        times.append({"median_before_s": before, "median_after_s": after})
    totals = [{"payload": name, "tasks": len(rows) // len(names), "solved": number} for name, number in solved.items()]
    write("swe_adversary", [*totals, *rows, *times], claims, packages=("pytest",))


if __name__ == "__main__":
    main()
