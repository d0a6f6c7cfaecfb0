"""Seconds to grade a bundled task's solution, compared with the code of another checkout.

    python -m benchmarks.swe_grading_time PATH [--every N]

Both grade the same task one after the other, each in a separate, previously calibrated process. Run it on an idle
machine: a grading runs several processes at the same time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentgym.envs.swe.filtering import filtered
from agentgym.envs.swe.grading import Grader
from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.sandboxes import Sandboxes
from benchmarks._report import Claim, write
from benchmarks._swe_bundled import LIMITS, repository, tasks


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
    """Grade the tasks whose numbers come in, for `timed` in another process."""
    for seconds, passed in graded(int(line) for line in sys.stdin):
        print(seconds, int(passed), flush=True)


@contextmanager
def peer(checkout: Path) -> Iterator[Any]:
    """Grade with the code of a checkout, in a separate process."""
    # The package comes from the checkout; the benchmarks are always these.
    program = (
        f"import sys, agentgym; sys.path.insert(0, {str(Path(__file__).parent.parent)!r}); "
        f"from benchmarks.swe_grading_time import serve; serve()"
    )
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
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
    """Return a peer's result for a task."""
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
    parser.add_argument("before", type=Path, help="a checkout of other code, to compare with")
    parser.add_argument("--every", type=int, default=1, help="use only every N-th task")
    options = parser.parse_args()
    rows = []
    for row in timed(options.before, options.every):
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    before, after = (statistics.median(row[key] for row in rows) for key in ("before_s", "after_s"))
    ratios = sorted(row["ratio"] for row in rows)
    claims = [
        Claim("swe_grading_time_ratio", round(after / before, 3), "<=", 2),
        Claim("swe_solutions_passed", statistics.mean(row["solution_passed"] for row in rows), ">=", 1),
    ]
    spread = {"smallest_ratio": ratios[0], "median_ratio": statistics.median(ratios), "greatest_ratio": ratios[-1]}
    totals = {"median_before_s": before, "median_after_s": after, **spread}
    write("swe_grading_time", [totals, *rows], claims, packages=("pytest",))


if __name__ == "__main__":
    main()
