"""Code that cheats inside the process that grades it: the number of bundled tasks that it solves without any repair.

    python -m benchmarks.swe_adversary [--every N] [--payload NAME ...]

Every payload (`_swe_payloads`) is appended to the package's `__init__.py` of each task, so that it sees all that one
process sees.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from agentgym.envs.swe.filtering import filtered
from agentgym.envs.swe.grading import Grader
from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.sandboxes import Sandboxes
from agentgym.task import Task
from benchmarks._report import Claim, write
from benchmarks._swe_bundled import LIMITS, repository, tasks
from benchmarks._swe_payloads import PAYLOADS, STRONGEST, with_payload


def attacked(some: Sequence[Task], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the verdict on each payload for each task."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="use only every N-th task")
    parser.add_argument(
        "--payload", action="append", choices=tuple(PAYLOADS), help="payload to run; default: the strongest"
    )
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    names = options.payload or list(STRONGEST)
    for row in attacked(tasks()[:: options.every], names):
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    solved = {name: sum(row["solved"] for row in rows if row["payload"] == name) for name in names}
    claims = [Claim("swe_adversary_solved", max(solved.values()), "<=", 1)]
    totals = [{"payload": name, "tasks": len(rows) // len(names), "solved": number} for name, number in solved.items()]
    write("swe_adversary", [*totals, *rows], claims, packages=("pytest",))


if __name__ == "__main__":
    main()
