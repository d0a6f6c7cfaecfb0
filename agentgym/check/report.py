"""Format a report as a table or as JSON."""

from __future__ import annotations

import json
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.base.choices import nearest
from agentgym.base.errors import UsageError
from agentgym.check.catalog import Check
from agentgym.check.outcomes import Blocked, CheckFailed, CheckSkipped, CheckWarned
from agentgym.check.subject import Subject
from agentgym.core.foreign import describe

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


CHECK_TIMEOUT_S = 120.0
RESETS, STEPS = 500, 5000
"""Upper bounds on the resets and steps of one check, added to its time limit at the environment's speed."""


class CheckStatus(StrEnum):
    """The status of a completed check."""

    PASS = "pass"
    FAIL = "fail"
    WARN = "warn"
    """The check found something worth reporting, but no failure."""
    SKIP = "skip"
    """The check does not apply, or an earlier check explains why it cannot run or fails."""
    ERROR = "error"
    """The environment raised an unexpected exception, or the check timed out."""


_PROBLEMS = (CheckStatus.FAIL, CheckStatus.ERROR)


@dataclass(frozen=True)
class CheckResult:
    """The result of one check."""

    name: str
    promise: str
    status: CheckStatus
    message: str
    seconds: float


@dataclass(frozen=True)
class Report:
    """The results of all checks, in order."""

    target: str
    rows: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether at least one check passed and none failed. Skips and warnings count as neither."""
        return not self.problems and any(row.status is CheckStatus.PASS for row in self.rows)

    @property
    def problems(self) -> tuple[CheckResult, ...]:
        """The rows with a failure or an error."""
        return tuple(row for row in self.rows if row.status in _PROBLEMS)

    @property
    def warnings(self) -> tuple[CheckResult, ...]:
        """The rows with a warning."""
        return tuple(row for row in self.rows if row.status is CheckStatus.WARN)

    def row(self, name: str) -> CheckResult:
        """Return the row of the check called `name`."""
        return next(row for row in self.rows if row.name == name)


def run(
    target: str,
    checks: Sequence[Check],
    kwargs: Mapping[str, Any] | None,
    seed: int,
    timeout_s: float,
    on_row: Callable[[CheckResult], None] | None = None,
) -> Report:
    """Run `checks` against the environment that `target` names."""
    subject = Subject(target, kwargs, seed, {job for check in checks for job in check.jobs}, timeout_s)
    rows: list[CheckResult] = []
    try:
        limit_s = timeout_s + _needed_s(subject, timeout_s)
        for check in checks:
            rows.append(_run_one(check, subject, limit_s, rows))
            if on_row is not None:
                on_row(rows[-1])
    finally:
        subject.close()
    return Report(target, tuple(rows))


def select(checks: Sequence[Check], only: Sequence[str] | None) -> list[Check]:
    """Return the checks that `only` names, or all of them. Raises `UsageError` for an unknown name."""
    names = [check.name for check in checks]
    for name in only or ():
        if name not in names:
            raise UsageError(f"unknown check {name!r}{nearest(name, names)} There are: {', '.join(names)}")
    return [check for check in checks if not only or check.name in only]


def _needed_s(subject: Subject, timeout_s: float) -> float:
    """Return the seconds that the resets and steps of a check take; 0 for an environment that cannot be measured."""
    needed = [0.0]

    def try_out() -> None:
        with suppress(BaseException):  # the checks that play report why it cannot be played
            reset_s, step_s = subject.pace()
            needed[0] = RESETS * reset_s + STEPS * step_s

    thread = threading.Thread(target=try_out, name="check-pace", daemon=True)
    thread.start()
    thread.join(timeout_s)
    return needed[0]


def _run_one(check: Check, subject: Subject, timeout_s: float, earlier: Sequence[CheckResult]) -> CheckResult:
    """Run a check in its own thread, so that one that hangs can be abandoned."""
    late = f"did not return within {timeout_s:.0f} s; find out what it waits for, and bound the wait"
    outcome = [(CheckStatus.ERROR, late)]

    def work() -> None:
        outcome[0] = _attempt(check, subject, {row.name for row in earlier})

    started = time.perf_counter()
    thread = threading.Thread(target=work, name=f"check-{check.name}", daemon=True)
    thread.start()
    thread.join(timeout_s)
    status, message = outcome[0]
    if status in _PROBLEMS and (cause := _cause(check, earlier)) is not None:
        status, message = CheckStatus.SKIP, f"{cause!r} fails too and explains this; fix it first"
    return CheckResult(check.name, check.promise, status, message, time.perf_counter() - started)


def _cause(check: Check, earlier: Sequence[CheckResult]) -> str | None:
    """Return the name of the first failed check that explains why this one fails."""
    failed = (row.name for row in earlier if row.status in _PROBLEMS)
    return next((name for name in failed if name in check.causes), None)


def _attempt(check: Check, subject: Subject, earlier_names: set[str]) -> tuple[CheckStatus, str]:
    """Run a check. The checks that ran before, `earlier_names`, may have reported what blocks this one."""
    try:
        return CheckStatus.PASS, check.run(subject) or ""
    except CheckFailed as failure:
        return CheckStatus.FAIL, str(failure)
    except CheckWarned as warning:
        return CheckStatus.WARN, str(warning)
    except Blocked as blocked:
        if blocked.reported_by in earlier_names:
            return CheckStatus.SKIP, str(blocked)
        return CheckStatus.ERROR, _describe(blocked)
    except CheckSkipped as reason:
        return CheckStatus.SKIP, str(reason)
    except BaseException as error:  # in its own thread, `SystemExit` would end the check silently
        return CheckStatus.ERROR, _describe(error)


def _describe(error: BaseException) -> str:
    """Describe the root cause of an error and the line that raised it."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    frames = traceback.extract_tb(root.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name})" if frames else ""
    return f"{describe(root)}{where}"


# Imported where something is printed: the fresh interpreters of the checks import this module and print nothing.

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
