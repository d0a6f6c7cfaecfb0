"""Tables of suites and their contents, and the report of `agentgym tasks validate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from agentgym.base.choices import count_of
from agentgym.base.console import new_table
from agentgym.core.display import plain
from agentgym.eval.suites.suite import Suite, SuiteEntry
from agentgym.rollout.limits import Limits

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym.eval.suites.doctor import Examination
    from agentgym.eval.suites.validation import Lengths, OnSolution, TaskStats, ValidationReport

MAX_TAGS = 6
"""Maximum number of tags to print."""
MAX_ROWS = 10
"""Maximum number of faults of one kind to print; `--json` has all."""
_EXCERPT = 200


def suites_table(suites: Sequence[Suite]) -> Table:
    """Return a table of suites."""
    table = new_table("suite", "version", "entries", "tasks", "your data", "about")
    for suite in suites:
        needed = dict.fromkeys(name for entry in suite.all_entries for name in entry.data.values())
        tasks = sum(len(entry.pins) for entry in suite.all_entries)
        counts = (str(suite.version), str(len(suite.all_entries)), str(tasks))
        table.add_row(suite.name, *counts, ", ".join(needed), Text(plain(suite.description)))
    return table


def print_suite(suite: Suite, console: Console) -> None:
    """Print a suite with its entries."""
    console.print(Text.assemble((suite.name, "bold"), f" version {suite.version}  ", (suite.content_hash[:12], "dim")))
    if suite.description:
        console.print(Text(plain(suite.description)))
    table = new_table("entry", "environment", "tasks", "attempts", "played with", "metrics")
    for entry in suite.all_entries:
        counts = (str(len(entry.pins)), str(entry.attempts))
        table.add_row(entry.name, entry.env, *counts, Text(plain(_how(entry))), ", ".join(entry.metrics))
    console.print(table)


def _how(entry: SuiteEntry) -> str:
    """Return arguments, data, limits, dialect and temperature of an entry that differ from the defaults."""
    usual = asdict(Limits())
    data = {argument: entry.paths.get(name, f"your {name}") for argument, name in entry.data.items()}
    limits = {name: value for name, value in asdict(entry.limits).items() if value != usual[name]}
    dialect = {} if entry.dialect is None else {"dialect": entry.dialect}
    sampling = {} if entry.temperature == 1.0 else {"temperature": entry.temperature}
    settings = {**entry.arguments, **data, **limits, **dialect, **sampling}
    return "  ".join(f"{name}={value}" for name, value in settings.items())


def stats_table(stats: Mapping[str, TaskStats]) -> Table:
    """Return a table of statistics, with a row for each split or entry of a suite."""
    table = new_table("", "tasks", "by split", "by difficulty", "tags", "characters", "words")
    for place, task_stats in stats.items():
        tags = list(task_stats.by_tag.items())
        more = f" … {len(tags) - MAX_TAGS} more" if len(tags) > MAX_TAGS else ""
        table.add_row(
            place,
            str(task_stats.tasks),
            _counts(task_stats.by_split),
            _counts(task_stats.by_difficulty),
            Text(plain(_counts(dict(tags[:MAX_TAGS])) + more)),
            _lengths(task_stats.characters),
            _lengths(task_stats.words),
        )
    table.caption = "characters and words of prompts: shortest, median, longest"
    table.caption_justify = "left"
    return table


def _counts(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{key}: {count}" for key, count in counts.items())


def _lengths(lengths: Lengths) -> str:
    return f"{lengths.shortest}, {lengths.median:g}, {lengths.longest}"


def print_validation(report: ValidationReport, console: Console) -> None:
    """Print what was checked and all faults."""
    table = new_table("", "tasks", "pins", "gold")
    for place in [*report.tasks, *(place for place in report.unchecked if place not in report.tasks)]:
        table.add_row(place, str(report.tasks.get(place, "")), _pins(report, place), _gold(report, place))
    console.print(table)
    _print_rows("not checked", [f"{place}: {reason}" for place, reason in report.unchecked.items()], console)
    _print_rows("gone", [f"{place}: {task_id}" for place, ids in report.gone.items() for task_id in ids], console)
    _print_rows("changed", [f"{place}: {task_id}" for place, ids in report.changed.items() for task_id in ids], console)
    faults = [f"{place}: {fault.task_id}: {fault.reason}" for place, golds in report.gold.items() for fault in golds]
    _print_rows("gold", faults, console)
    _print_pairs(report, console)
    if (contamination := report.contamination) is not None:
        _print_rows("overlap", [f"{hit.task.id} in {hit.where}: “{hit.run}”" for hit in contamination.hits], console)
        short = f"; {contamination.too_short} prompts are too short to compare" if contamination.too_short else ""
        hits = f"overlap: {len(contamination.hits)} of {contamination.compared} prompts are in"
        console.print(f"{hits} {contamination.texts} texts{short}")
    for place, examination in report.examinations.items():
        _print_examination(place, examination, console)
    console.print(Text("valid", style="bold green") if report.passed else Text("not valid", style="bold red"))


def _print_examination(place: str, examination: Examination, console: Console) -> None:
    kinds: dict[str, list[str]] = {}
    for doubt in examination.doubts:
        kinds.setdefault(doubt.kind, []).append(f"{place}: {doubt.task_id}: {doubt.reason}")
    for kind, rows in kinds.items():
        _print_rows(f"{kind} ({count_of(len(rows), 'task')})", rows, console, style="bold yellow")
    for is_right, what in ((True, "refused"), (False, "accepted")):
        rows = [
            f"{place}: {verdict.task_id}: {verdict.case}: {verdict.answer}"
            for verdict in examination.verdicts
            if verdict.is_right is is_right
        ]
        _print_rows(f"{'right' if is_right else 'wrong'} answer {what}", rows, console, style="bold yellow")
    refused = f"{examination.false_rejects} of {count_of(examination.right, 'right answer')} refused"
    accepted = f"{examination.false_accepts} of {count_of(examination.wrong, 'wrong answer')} accepted"
    rest = f"; {count_of(len(examination.not_examined), 'task')} not examined" if examination.not_examined else ""
    console.print(f"doctor of {place}: {refused}, {accepted}{rest}", style="dim")


def _print_pairs(report: ValidationReport, console: Console) -> None:
    faults = report.faulty_pairs
    kinds = {"the same": [pair for pair in faults if pair.is_exact]}
    kinds["nearly the same"] = [pair for pair in faults if not pair.is_exact]
    for kind, pairs in kinds.items():
        _print_rows(kind, [f"{pair.one} and {pair.other} ({100 * pair.similarity:.0f} %)" for pair in pairs], console)
    if harmless := len(report.pairs) - len(faults):
        console.print(f"duplicates: {len(faults)} across; {harmless} more pairs within one split or entry", style="dim")
    elif not faults:
        console.print("duplicates: none", style="dim")


def _print_rows(what: str, rows: Sequence[str], console: Console, style: str = "bold red") -> None:
    for row in rows[:MAX_ROWS]:
        console.print(Text.assemble((f"{what}: ", style), plain(row, _EXCERPT)))
    if (more := len(rows) - MAX_ROWS) > 0:
        console.print(Text(f"{what}: … and {more} more; --json lists all", style="dim"))


def _pins(report: ValidationReport, place: str) -> str:
    gone, changed = len(report.gone.get(place, ())), len(report.changed.get(place, ()))
    return ", ".join([*([f"{gone} gone"] if gone else []), *([f"{changed} changed"] if changed else [])]) or "hold"


def _gold(report: ValidationReport, place: str) -> Text:
    if place in report.unchecked:
        return Text("not checked", style="bold yellow")
    if place not in report.gold:
        return Text("", style="dim")
    if faults := report.gold[place]:
        return Text(f"{len(faults)} faults", style="bold red")
    return Text("all solved", style="green")


@contextmanager
def solutions_bar(what: str = "gold of") -> Iterator[OnSolution]:
    """Show the number of finished tasks on stderr, if it is a terminal; provide the function that updates it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    from agentgym.base.console import console

    shown_on = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bars: dict[str, TaskID] = {}
    with Progress(*columns, console=shown_on, transient=True, disable=not shown_on.is_terminal) as progress:

        def show(place: str, done: int, total: int) -> None:
            if place not in bars:
                bars[place] = progress.add_task(f"{what} {place}", total=total)
            progress.update(bars[place], completed=done)

        yield show
