"""List the benchmarks and report which of their claims hold: `python -m benchmarks`. Exits with 1 if one does not."""

from __future__ import annotations

import sys
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks._report import read_all


def main() -> int:
    results = read_all()
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("claim", "value", "goal", "holds"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "value" else "left")
    for name in sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py")):
        table.add_row(f"[bold]{name}[/]", "", "", "" if name in results else "not run")
        for claim in results.get(name, ()):
            verdict = "[green]yes[/]" if claim.holds else "[red]no[/]"
            table.add_row(f"  {claim.claim}", f"{claim.value:g}", f"{claim.op} {claim.goal:g}", verdict)
    Console().print(table)
    return 0 if all(claim.holds for claims in results.values() for claim in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
