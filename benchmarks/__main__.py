"""List the benchmarks and report which of their claims hold: `python -m benchmarks`. Exits with 1 if one does not."""

from __future__ import annotations

import sys
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks._report import RESULTS, claims_in, earlier


def main() -> int:
    results = {path.stem: earlier(path.stem) for path in sorted(RESULTS.glob("*.json"))}
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("claim", "value", "goal", "holds"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "value" else "left")
    for name, result in results.items():
        table.add_row(f"[bold]{name}[/]", "", "", "")
        for claim in claims_in(result):
            verdict = "[green]yes[/]" if claim.holds else "[red]no[/]"
            table.add_row(f"  {claim.claim}", f"{claim.value:g}", f"{claim.op} {claim.goal:g}", verdict)
    scripts = {path.stem for path in Path(__file__).parent.glob("[!_]*.py")}
    for name in sorted(scripts - {result["benchmark"] for result in results.values()}):
        table.add_row(f"[bold]{name}[/]", "", "", "not run")
    Console().print(table)
    return 0 if all(claim.holds for result in results.values() for claim in claims_in(result)) else 1


if __name__ == "__main__":
    sys.exit(main())
