"""Play the suite `core` to its end: the solutions solve everything, random calls next to nothing, and nothing fails.

python -m benchmarks.suites_core

The suite is played as `agentgym eval --suite core` plays it. It needs a Chromium.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from agentgym.commands.suite_runs import Pair, SuitesReport, SuitesRequest, run_suites
from agentgym.suites import load_suite
from benchmarks._report import Claim, write

CONCURRENCY = 8
POLICIES = ("scripted", "random")


def row_of(pair: Pair) -> dict[str, Any]:
    """Return what came of a policy on an entry."""
    row: dict[str, Any] = {"entry": pair.entry.name, "policy": pair.policy, "error": pair.error}
    if (summary := pair.summary) is not None:
        row |= {"tasks": summary.overall.tasks, "success": summary.success, "interval": summary.interval}
        row |= {"failed": summary.failed, "broken_tasks": len(summary.broken_tasks), "endings": summary.endings}
        row |= {"seconds": round(summary.seconds, 1)}
    print(row, file=sys.stderr)
    return row


def claims_of(report: SuitesReport, rows: list[dict[str, Any]]) -> list[Claim]:
    """Return what should hold: every entry was played, and counts once in a policy's mean."""
    suite = report.suites[0]
    lost = sum(row["error"] is not None or row["failed"] + row["broken_tasks"] for row in rows)
    success = {policy: report.success(suite, policy) or 0.0 for policy in POLICIES}
    return [
        Claim("suites_core_failed", lost, "<=", 0),
        Claim("suites_core_scripted_success", round(success["scripted"], 4), ">=", 1.0),
        Claim("suites_core_random_success", round(success["random"], 4), "<=", 0.05),
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        suite = load_suite("core")
        report = run_suites(SuitesRequest([suite], POLICIES, out=Path(folder) / "out", concurrency=CONCURRENCY))
    rows = [row_of(pair) for pair in report.pairs]
    write("suites_core", [{"version": suite.version, **row} for row in rows], claims_of(report, rows))


if __name__ == "__main__":
    main()
