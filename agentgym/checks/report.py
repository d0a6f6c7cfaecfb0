"""Show a report as a table."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentgym.checks.runner import Report, Row, Status

_LOOK = {
    Status.PASS: ("✓", "green"),
    Status.FAIL: ("✗", "bold red"),
    Status.ERROR: ("!", "bold red"),
    Status.SKIP: ("–", "yellow"),
}


def print_report(report: Report, console: Console | None = None) -> None:
    """Print one line per guarantee, and under each broken one what to do about it."""
    console = Console() if console is None else console
    table = Table(title=f"agentgym check {report.target}", title_justify="left", box=None, padding=(0, 1))
    table.add_column("")
    table.add_column("guarantee", style="bold", no_wrap=True)
    table.add_column("promise, and what was found")
    table.add_column("s", justify="right", style="dim")
    for row in report.rows:
        sign, style = _LOOK[row.status]
        table.add_row(Text(sign, style=style), row.name, _told(row, style), f"{row.seconds:.1f}")
    console.print(table)
    console.print(summary(report))


def summary(report: Report) -> Text:
    """Return the verdict in one line."""
    counts = {status: sum(row.status is status for row in report.rows) for status in Status}
    parts = [f"{count} {status.value}" for status, count in counts.items() if count]
    verdict, style = ("passed", "bold green") if report.passed else ("did not pass", "bold red")
    if not report.passed and not report.problems:
        verdict = "was not checked"
    return Text(f"{report.target} {verdict}: {', '.join(parts)}", style=style)


def _told(row: Row, style: str) -> Text:
    text = Text(row.promise)
    if row.message:
        text.append(f"\n{row.message}", style="dim" if row.status is Status.PASS else style.removeprefix("bold "))
    return text
