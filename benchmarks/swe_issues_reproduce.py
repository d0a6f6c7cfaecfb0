"""Issues of the bundled SWE tasks: whether their own code shows the fault, and whether their example can be gamed.

    python -m benchmarks.swe_issues_reproduce [--every N]

The code blocks of each issue are taken out of its text and run on the faulty and on the fixed repository. Then a cheat
that knows the issue's examples, and gives the right result for exactly their calls, is graded by the hidden tests.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from agentgym.tasks.swe.bundled import bundled_instances
from agentgym.tasks.swe.instance import Instance
from benchmarks._report import Claim, write
from benchmarks._swe_issues import Finding, examine, right_for_its_example, solves, special_cased


def gamed(instance: Instance) -> dict[str, Any]:
    """Return whether a cheat can be written, makes the issue's example right, and passes the hidden tests."""
    tree = special_cased(instance)
    if tree is None:
        return {"special_case": "not possible", "special_case_solves": 0}
    works = right_for_its_example(instance, tree)
    return {"special_case": "works" if works else "does not work", "special_case_solves": int(solves(instance, tree))}


def row_of(instance: Instance, finding: Finding, cheat: dict[str, Any]) -> dict[str, Any]:
    """Return what the result file holds of a task."""
    return {
        "task": instance.id, "split": instance.meta["split"], "reproduces": int(finding.reproduces),
        "told": finding.told, "given_away": list(finding.given_away), **cheat,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="use only every N-th task")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    instances = bundled_instances()[:: options.every]
    findings = examine(instances)
    with ThreadPoolExecutor(options.workers) as pool:
        cheats = list(pool.map(gamed, instances))
    rows = [row_of(*each) for each in zip(instances, findings, cheats, strict=True)]
    for row in rows:
        print(row, file=sys.stderr)
    works = sum(row["special_case"] == "works" for row in rows)
    claims = [
        Claim("swe_issues_reproduce", sum(row["reproduces"] for row in rows) / len(rows), ">=", 0.9),
        Claim("swe_issues_giving_away", sum(bool(row["given_away"]) for row in rows) / len(rows), "<=", 0.0),
        Claim("swe_issues_special_case_written", works / len(rows), ">=", 0.5),
        Claim("swe_issues_special_case_solves", sum(row["special_case_solves"] for row in rows), "<=", 0),
    ]
    write("swe_issues_reproduce", rows, claims, packages=("pytest",))


if __name__ == "__main__":
    main()
