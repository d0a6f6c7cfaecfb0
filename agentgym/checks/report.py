"""Format a report as a table or as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from agentgym.checks.runner import CheckResult, CheckStatus, Report

# Imported where something is printed: the fresh interpreters of the checks import this module and print nothing.
if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_LOOK = {
    CheckStatus.PASS: ("✓", "green"),
    CheckStatus.FAIL: ("✗", "bold red"),
    CheckStatus.ERROR: ("!", "bold red"),
    CheckStatus.WARN: ("⚠", "yellow"),
    CheckStatus.SKIP: ("–", "yellow"),
}


def print_report(report: Report, console: Console | None = None, failures_only: bool = False) -> None:
    """Print a table with one row per guarantee and what was found, followed by the verdict.

    Args:
        report: The report to print.
        console: Where to print; standard output by default.
        failures_only: Omit checks that passed or were skipped; warnings are shown.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console() if console is None else console
    rows = shown_rows(report, failures_only)
    if rows:
        table = Table(title=f"agentgym check {report.target}", title_justify="left", box=None, padding=(0, 1))
        table.add_column("")
        table.add_column("guarantee", style="bold", no_wrap=True)
        table.add_column("promise, and what was found")
        table.add_column("s", justify="right", style="dim")
        for row in rows:
            sign, style = _LOOK[row.status]
            table.add_row(Text(sign, style=style), row.name, _described(row, style), f"{row.seconds:.1f}")
        console.print(table)
    console.print(summary(report))


def report_json(report: Report, failures_only: bool = False) -> str:
    """Return a report as one JSON object: `target`, `passed`, `counts` by status, and `checks` in order.

    Each check has its `name`, `promise`, `status`, `message` and `seconds`.
    """
    checks = [asdict(row) | {"seconds": round(row.seconds, 3)} for row in shown_rows(report, failures_only)]
    content = {"target": report.target, "passed": report.passed, "counts": counts(report), "checks": checks}
    return json.dumps(content, indent=1, ensure_ascii=False)


def shown_rows(report: Report, failures_only: bool = False) -> tuple[CheckResult, ...]:
    """Return all rows, or only those that failed, raised an error or warned."""
    notable = {*report.problems, *report.warnings}
    return tuple(row for row in report.rows if not failures_only or row in notable)


def counts(report: Report) -> dict[str, int]:
    """Return the number of rows by status, omitting statuses without rows."""
    counts_by_status = {status.value: sum(row.status is status for row in report.rows) for status in CheckStatus}
    return {status: count for status, count in counts_by_status.items() if count}


def summary(report: Report) -> Text:
    """Return the verdict in one line."""
    from rich.text import Text

    parts = [f"{count} {status}" for status, count in counts(report).items()]
    verdict, style = ("passed", "bold green") if report.passed else ("did not pass", "bold red")
    if not report.passed and not report.problems:
        verdict = "was not checked"
    return Text(f"{report.target} {verdict}: {', '.join(parts)}", style=style)


def _described(row: CheckResult, style: str) -> Text:
    from rich.text import Text

    text = Text(row.promise)
    if row.message:
        text.append(f"\n{row.message}", style="dim" if row.status is CheckStatus.PASS else style.removeprefix("bold "))
    return text
