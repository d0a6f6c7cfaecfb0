"""`agentgym tasks list|stats|validate`: inspect and validate suites and environments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.base.command_options import Settings
from agentgym.base.errors import UsageError

if TYPE_CHECKING:
    from agentgym.eval.suites.loading import TaskSet
    from agentgym.eval.suites.suite import Suite
    from agentgym.eval.suites.validation import ValidationReport
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
    from agentgym.cli.task_set_tables import suites_table
    from agentgym.eval.suites import bundled_suites, load_suite

    console().print(suites_table([load_suite(name) for name in bundled_suites()]))
    typer.echo("\nShow one with: agentgym tasks show SUITE (add --suite if an environment has the same name).")


def stats(
    name: Name,
    splits: Splits = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Maximum number of tasks per split of an environment.")
    ] = 100,
    settings: Settings = None,
    data: Data = None,
    as_suite: AsSuite = False,
) -> None:
    """Show statistics of a suite or an environment: counts by difficulty, tag and split, lengths of prompts."""
    from agentgym.base.console import console
    from agentgym.cli.task_set_tables import stats_table
    from agentgym.eval.suites.validation import ValidationReport, task_stats

    report = ValidationReport()
    sets = _sets(name, report, splits, limit, settings, data, as_suite)
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
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Maximum number of tasks per split of an environment.")
    ] = 50,
    settings: Settings = None,
    data: Data = None,
    as_suite: AsSuite = False,
    entry: Annotated[list[str] | None, typer.Option(help="Only this entry of the suite; may be repeated.")] = None,
    gold: Annotated[bool, typer.Option("--gold/--no-gold", help="Play the solution of every task.")] = True,
    doctor: Annotated[
        bool,
        typer.Option(
            "--doctor", help="Also examine golds that the data do not determine, and the grader on varied answers."
        ),
    ] = False,
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
    equal problems. Exits with 1 if something is wrong or could not be checked. With --doctor, the report also names
    golds that depend on ties, NULLs or the order of rows, and counts right answers in other spellings that the grader
    refuses, and wrong ones that it accepts; these are advice and do not change the exit code.
    """
    from agentgym.base.console import console
    from agentgym.cli.task_set_tables import print_validation, solutions_bar
    from agentgym.eval.overlap import find_in_texts, texts_in
    from agentgym.eval.suites.validation import ValidationReport, compare_tasks, examine_sets, play_gold

    report = ValidationReport(repeats_count=names_suite(name, as_suite))
    sets = _sets(name, report, splits, limit, settings, data, as_suite, entry)
    compare_tasks(sets, report, near)
    if against:
        texts = (text for path in against for text in texts_in(path))
        report.contamination = find_in_texts([task for task_set in sets for task in task_set.tasks], texts, ngram)
    if gold:
        with solutions_bar() as show_progress:
            play_gold(sets, report, concurrency=concurrency, workers=workers, on_solution=show_progress)
    if doctor:
        with solutions_bar("examining") as show_progress:
            examine_sets(sets, report, on_task=show_progress)
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
    limit: int,
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
    return sets_of_env(factory_of(name, parse_settings(settings or [])), splits, limit)


def factory_of(name: str, arguments: dict[str, Any]) -> EnvFactory:
    """Return a factory of an environment. Raises `UsageError` with a suggestion for an unknown argument."""
    from agentgym.core.making import close, full_env_id, make_env
    from agentgym.rollout import EnvFactory

    close(make_env(name, arguments))
    return EnvFactory(full_env_id(name), arguments)
