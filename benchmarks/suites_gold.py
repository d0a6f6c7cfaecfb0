"""Play the solutions of bundled suites, and look for equal and nearly equal problems among their tasks.

    python -m benchmarks.suites_gold [SUITE ...] [--data NAME=PATH]

Without names, play every suite, except for entries whose data is missing. Rows of other suites are kept. `seconds` is
the time for the solutions of an entry, with 8 concurrent episodes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from agentgym.base.settings import split_pair
from agentgym.eval.suites import bundled_suites, load_suite
from agentgym.eval.suites.validation import ValidationReport, compare_tasks, entry_sets, play_gold
from benchmarks._report import Claim, argument_parser, earlier, write

CONCURRENCY = 8


def measure(name: str, paths: dict[str, str]) -> list[dict[str, Any]]:
    """Return a row for each entry of a suite."""
    suite, rows = load_suite(name, {key: path for key, path in paths.items() if key in data_of(name)}), []
    for entry in suite.entries:
        report = ValidationReport()
        sets = entry_sets([entry], report)
        compare_tasks(sets, report, near=0.9)
        started = time.perf_counter()
        play_gold(sets, report, concurrency=CONCURRENCY)
        seconds = round(time.perf_counter() - started, 1)
        faults = [fault.task_id for golds in report.gold.values() for fault in golds]
        tasks = len(entry.pins)
        row = {"suite": name, "version": suite.version, "entry": entry.name, "tasks": tasks, "seconds": seconds}
        row |= {"solved": tasks - len(faults) if not report.unchecked else 0, "not_solved": faults}
        row |= {"pairs": len(report.pairs), "pins_hold": not (report.gone or report.changed)}
        rows.append(row | {"unchecked": report.unchecked})
        print(row, file=sys.stderr)
    return rows


def data_of(name: str) -> set[str]:
    """Return the names of the data that a suite requires."""
    return {data_name for entry in load_suite(name).all_entries for data_name in entry.data.values()}


def of_other_suites(names: Sequence[str]) -> list[dict[str, Any]]:
    """Return earlier rows for other suites, if their version is current."""
    rows = earlier("suites_gold")["rows"]
    others = [row for row in rows if row["suite"] not in names and row["suite"] in bundled_suites()]
    return [row for row in others if row["version"] == load_suite(row["suite"]).version]


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("suites", nargs="*", help="names of bundled suites")
    parser.add_argument("--data", action="append", metavar="NAME=PATH", help="your own data; may be repeated")
    options = parser.parse_args()
    names = options.suites or bundled_suites()
    pairs = (split_pair(pair, "--data", "NAME=PATH") for pair in options.data or [])
    paths = {name: path.strip() for name, path in pairs}
    rows = [*of_other_suites(names), *(row for name in names for row in measure(name, paths))]
    rows.sort(key=lambda row: row["suite"])
    claims: list[Claim] = []
    for name in dict.fromkeys(row["suite"] for row in rows):
        own = [row for row in rows if row["suite"] == name]
        solved = sum(row["solved"] for row in own) / sum(row["tasks"] for row in own)
        claims.append(Claim(f"suites_gold_{name}_solved", round(solved, 4), ">=", 1.0))
        claims.append(Claim(f"suites_gold_{name}_similar_pairs", sum(row["pairs"] for row in own), "<=", 0))
        if name == "smoke":
            claims.append(Claim("suites_gold_smoke_seconds", sum(row["seconds"] for row in own), "<=", 60))
    write("suites_gold", rows, claims)


if __name__ == "__main__":
    main()
