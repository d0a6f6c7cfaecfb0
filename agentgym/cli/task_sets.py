"""`agentgym tasks list|stats|validate`: inspect and validate suites and environments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from agentgym.base.command_options import Settings
from agentgym.base.errors import UsageError
from agentgym.cli.listing import new_table
from agentgym.core.display import plain
from agentgym.eval.suites.suite import Suite, SuiteEntry
from agentgym.rollout.limits import Limits

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym.eval.suites.loading import TaskSet
    from agentgym.eval.suites.suite import Suite
    from agentgym.eval.suites.validation import Lengths, OnSolution, TaskStats, ValidationReport
    from agentgym.rollout.jobs import EnvFactory


Name = Annotated[
    str,
    typer.Argument(
        metavar="SUITE|ENV",
        help="A suite (agentgym tasks list, or a YAML file), or an environment: an id, module:Class.",
    ),
]
AsSuite = Annotated[
    bool, typer.Option("--suite", help="Use the suite if an environment has the same name (sql, search, …).")
]
Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data", metavar="NAME=PATH", help="Your file or folder for data that the suite requires under this name."
    ),
]
Splits = Annotated[list[str] | None, typer.Option("--split", help="Only this split; may be repeated.")]
Near = Annotated[
    float,
    typer.Option(
        min=0.1, max=1.0, help="Minimum similarity of two problems that count as nearly the same; 1: only equal ones."
    ),
]


def names_suite(name: str, as_suite: bool) -> bool:
    """Whether a name means a suite. If an environment has the same name, it means the environment.

    Raises:
        UsageError: Neither a suite nor an environment has this name.
    """
    from agentgym.base.choices import nearest
    from agentgym.core.registry import is_class_path, resolve
    from agentgym.eval.suites.loading import bundled_suites, is_suite

    if as_suite or is_class_path(name):
        return as_suite
    try:
        resolve(name)
    except UsageError as error:
        if is_suite(name):
            return True
        raise UsageError(f"{error}. Nor is there a suite {name!r}{nearest(name, bundled_suites())}") from error
    return False


def read_suite(name: str, data: list[str] | None) -> Suite:
    """Load a suite with the user's data; report skipped entries on stderr."""
    from agentgym.base.console import console
    from agentgym.eval.suites import load_suite

    suite = load_suite(name, paths_in(data))
    for entry in suite.skipped:
        needed = " ".join(f"--data {key}=PATH" for key in entry.missing)
        console(stderr=True).print(f"Skipped {entry.name}: it needs your own data ({needed}).", markup=False)
    if not suite.entries:
        raise UsageError(f"every entry of the suite {suite.name!r} needs data of your own")
    return suite


def paths_in(data: list[str] | None) -> dict[str, str]:
    """Return the paths of `--data NAME=PATH`, by name."""
    from agentgym.base.settings import split_pair

    pairs = (split_pair(pair, "--data", "NAME=PATH") for pair in data or [])
    return {name: path.strip() for name, path in pairs}


def list_() -> None:
    """List the bundled suites."""
    from agentgym.base.console import console
    from agentgym.eval.suites import bundled_suites, load_suite

    console().print(suites_table([load_suite(name) for name in bundled_suites()]))
    typer.echo("\nShow one with: agentgym tasks show SUITE (add --suite if an environment has the same name).")


def stats(
    name: Name,
    splits: Splits = None,
    number: Annotated[
        int, typer.Option("--number", "-n", min=1, help="Maximum number of tasks per split of an environment.")
    ] = 100,
    settings: Settings = None,
    data: Data = None,
    as_suite: AsSuite = False,
) -> None:
    """Show statistics of a suite or an environment: counts by difficulty, tag and split, lengths of prompts."""
    from agentgym.base.console import console
    from agentgym.eval.suites.validation import ValidationReport, task_stats

    report = ValidationReport()
    sets = _sets(name, report, splits, number, settings, data, as_suite)
    for place, reason in report.unchecked.items():
        console(stderr=True).print(f"{place} is left out: {reason}", style="yellow", markup=False)
    for place, gone in report.gone.items():
        warning = f"{place}: {len(gone)} pinned tasks cannot be found; is this the data that was pinned?"
        console(stderr=True).print(warning, style="yellow", markup=False)
    if not any(task_set.tasks for task_set in sets):
        raise UsageError(f"{name!r} has no task that can be shown")
    console().print(stats_table({task_set.place: task_stats(task_set.tasks) for task_set in sets if task_set.tasks}))


def validate(
    name: Name,
    splits: Splits = None,
    number: Annotated[
        int, typer.Option("--number", "-n", min=1, help="Maximum number of tasks per split of an environment.")
    ] = 50,
    settings: Settings = None,
    data: Data = None,
    as_suite: AsSuite = False,
    entry: Annotated[list[str] | None, typer.Option(help="Only this entry of the suite; may be repeated.")] = None,
    gold: Annotated[bool, typer.Option("--gold/--no-gold", help="Play the solution of every task.")] = True,
    near: Near = 0.9,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE|FOLDER", help="Texts that may contain no prompt, such as training data; may be repeated."
        ),
    ] = None,
    ngram: Annotated[
        int, typer.Option(min=8, help="Consecutive words that a prompt and such a text must share to overlap.")
    ] = 13,
    concurrency: Annotated[int, typer.Option(min=1, help="Number of concurrent episodes.")] = 16,
    workers: Annotated[str, typer.Option(help="Where environments run: inline, threads, processes.")] = "threads",
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Validate tasks: gold, pins, duplicates, and overlap with texts.

    The solution of every task is played and must get full marks. Two splits or entries may not contain equal or nearly
    equal problems. Exits with 1 if something is wrong or could not be checked.
    """
    from agentgym.base.console import console
    from agentgym.eval.overlap import find_in_texts, texts_in
    from agentgym.eval.suites.validation import ValidationReport, compare_tasks, play_gold

    report = ValidationReport(repeats_count=names_suite(name, as_suite))
    sets = _sets(name, report, splits, number, settings, data, as_suite, entry)
    compare_tasks(sets, report, near)
    if against:
        texts = (text for path in against for text in texts_in(path))
        report.contamination = find_in_texts([task for task_set in sets for task in task_set.tasks], texts, ngram)
    if gold:
        with solutions_bar() as show_progress:
            play_gold(sets, report, concurrency=concurrency, workers=workers, on_solution=show_progress)
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2, ensure_ascii=False))
    else:
        print_validation(report, console())
    if not report.passed:
        raise typer.Exit(1)


def _sets(
    name: str,
    report: ValidationReport,
    splits: list[str] | None,
    number: int,
    settings: list[str] | None,
    data: list[str] | None,
    as_suite: bool,
    entries: list[str] | None = None,
) -> list[TaskSet]:
    """Return the tasks of a suite's entries, or of an environment's splits."""
    from agentgym.base.settings import parse_settings
    from agentgym.eval.suites.loading import sets_of_env
    from agentgym.eval.suites.validation import entry_sets

    if names_suite(name, as_suite):
        if splits or settings:
            raise UsageError("--split and --set are for environments, not for suites")
        suite = read_suite(name, data)
        return entry_sets([suite.entry(entry) for entry in entries] if entries else suite.entries, report)
    if data or entries:
        raise UsageError("--data and --entry are for suites; for an environment, name files with --set")
    return sets_of_env(factory_of(name, parse_settings(settings or [])), splits, number)


def factory_of(name: str, arguments: dict[str, Any]) -> EnvFactory:
    """Return a factory of an environment. Raises `UsageError` with a suggestion for an unknown argument."""
    from agentgym.core.closing import close
    from agentgym.core.making import full_env_id, make_env
    from agentgym.rollout import EnvFactory

    close(make_env(name, arguments))
    return EnvFactory(full_env_id(name), arguments)


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
    console.print(Text("valid", style="bold green") if report.passed else Text("not valid", style="bold red"))


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


def _print_rows(what: str, rows: Sequence[str], console: Console) -> None:
    for row in rows[:MAX_ROWS]:
        console.print(Text.assemble((f"{what}: ", "bold red"), plain(row, _EXCERPT)))
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
def solutions_bar() -> Iterator[OnSolution]:
    """Show the number of played solutions on stderr, if it is a terminal; provide the function that updates it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    from agentgym.base.console import console

    shown_on = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bars: dict[str, TaskID] = {}
    with Progress(*columns, console=shown_on, transient=True, disable=not shown_on.is_terminal) as progress:

        def show(place: str, done: int, total: int) -> None:
            if place not in bars:
                bars[place] = progress.add_task(f"gold of {place}", total=total)
            progress.update(bars[place], completed=done)

        yield show
