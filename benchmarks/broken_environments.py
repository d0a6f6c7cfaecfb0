"""Tests whether `agentgym check` finds subtle faults, names their cause, and passes sound environments.

Every environment of `tests.order_faults` has one fault that its solution never meets. A fault is found if the check
meant for it fails or warns, in words that name the cause; it is named first if no other check fails before. The sound
ones are those of `tests.orders` that come close to a fault, and the registered environments that need no browser or
Docker.

    python -m benchmarks.broken_environments [--only Slow sql]
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Any

from agentgym.checks import Report, run_checks
from agentgym.checks.report import shown_rows
from benchmarks._report import Claim, write
from tests.order_faults import FAULTS, Fault
from tests.orders import SOUND

REGISTERED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "guess": ("guess", {}),
    "errand": ("errand", {}),
    "sql": ("sql", {}),
    "sql sqlite": ("sql", {"engine": "sqlite", "show_schema": "prompt"}),
    "search": ("search", {}),
    "search in stages": ("search", {"mode": ["adasearch", "reseek"], "results": "passages"}),
    "code": ("code", {}),
    "swe": ("swe", {}),
}


def checked(target: str, kwargs: Mapping[str, Any] | None = None) -> Report:
    """Check an environment; its output is discarded."""
    with redirect_stdout(io.StringIO()):
        return run_checks(target, kwargs)


def fault_row(fault: Fault) -> dict[str, Any]:
    """Check a broken environment and report whether the cause was named."""
    report = checked(f"tests.order_faults:{fault.env.__name__}")
    named = shown_rows(report, failures_only=True)
    hits = [row for row in named if row.name == fault.check and fault.says in row.message]
    return {
        "environment": fault.env.__name__,
        "fault": fault.env.__doc__,
        "found": bool(hits),
        "named_first": bool(hits) and named[0] is hits[0],
        "failed": [row.name for row in named],
        "message": named[0].message if named else "",
        "seconds": _seconds(report),
    }


def sound_row(name: str, report: Report) -> dict[str, Any]:
    """Report whether a sound environment passed without a failure. Warnings are shown."""
    return {
        "environment": name,
        "passed": report.passed,
        "failed": [row.name for row in report.problems],
        "warned": [row.message for row in report.warnings],
        "seconds": _seconds(report),
    }


def _seconds(report: Report) -> float:
    return round(sum(row.seconds for row in report.rows), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", metavar="ENVIRONMENT", help="environments to check; default: all")
    only = parser.parse_args().only
    sound = {env.__name__: (f"tests.orders:{env.__name__}", {}) for env in SOUND} | dict(REGISTERED)
    broken, passed = [], []
    for fault in FAULTS:
        if not only or fault.env.__name__ in only:
            broken.append(fault_row(fault))
            _tell(broken[-1], broken[-1]["named_first"])
    for name, (target, kwargs) in sound.items():
        if not only or name in only:
            passed.append(sound_row(name, checked(target, kwargs)))
            _tell(passed[-1], passed[-1]["passed"])
    write(
        "broken_environments",
        [*broken, *passed],
        [
            Claim("kinds_of_faults", len(broken), ">=", 16),
            Claim("faults_found", _share(row["found"] for row in broken), ">=", 1),
            Claim("faults_whose_cause_is_named_first", _share(row["named_first"] for row in broken), ">=", 1),
            Claim("sound_environments_passed", _share(row["passed"] for row in passed), ">=", 1),
        ],
    )


def _share(results: Any) -> float:
    found = list(results)
    return round(sum(found) / max(1, len(found)), 3)


def _tell(row: Mapping[str, Any], good: bool) -> None:
    what = row.get("message") or ", ".join([*row["failed"], *row.get("warned", [])])
    print(f"{'ok ' if good else 'BAD'} {row['environment']:24} {row['seconds']:6.1f} s  {what[:150]}", file=sys.stderr)


if __name__ == "__main__":
    main()
