"""List the benchmarks and say which of their claims hold: `python -m benchmarks`. Ends with 1 if one does not."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks._report import read_all


def main() -> int:
    results = read_all()
    table = Table(title="Claims")
    for heading in ("benchmark", "claim", "value", "goal", "holds"):
        table.add_column(heading, overflow="fold")
    every = True
    for name, claims in results.items():
        for claim in claims:
            every &= claim.holds
            verdict = "[green]yes[/]" if claim.holds else "[red]no[/]"
            table.add_row(name, claim.claim, f"{claim.value:g}", f"{claim.op} {claim.goal:g}", verdict)
    scripts = sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))
    for name in scripts:
        if name not in results:
            table.add_row(name, "", "", "", "not run")
    Console().print(table)
    return 0 if every else 1


if __name__ == "__main__":
    sys.exit(main())
