"""`agentgym tasks list|stats|validate`: what is in a suite or an environment, and whether it is sound."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.commands.common_options import Settings
from agentgym.errors import UsageError

if TYPE_CHECKING:
    from agentgym.rollout.jobs import EnvFactory
    from agentgym.suites.suite import Suite
    from agentgym.suites.task_sets import TaskSet
    from agentgym.suites.validation import ValidationReport

Name = Annotated[
    str,
    typer.Argument(
        metavar="SUITE|ENV",
        help="A suite (agentgym tasks list, or a YAML file), or an environment: an id, module:Class.",
    ),
]
AsSuite = Annotated[
    bool, typer.Option("--suite", help="The suite, where an environment has the same name (sql, search, …).")
]
Data = Annotated[
    list[str] | None,
    typer.Option("--data", metavar="NAME=PATH", help="A file or folder of yours that the suite asks for by that name."),
]
Splits = Annotated[list[str] | None, typer.Option("--split", help="Only this split; may be repeated.")]
Near = Annotated[
    float, typer.Option(min=0.1, max=1.0, help="Similarity from which two problems are nearly the same; 1: only equal.")
]


def names_suite(name: str, as_suite: bool) -> bool:
    """Whether a name means a suite. Where an environment has the same name, it means the environment.

    Raises:
        UsageError: It means neither.
    """
    from agentgym.choices import nearest
    from agentgym.registry import is_class_path, resolve
    from agentgym.suites.loading import bundled_suites, is_suite

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
    """Load a suite with the data that the user named, telling on stderr which entries are skipped."""
    from agentgym.suites import load_suite
    from agentgym.terminal.printing import console

    suite = load_suite(name, paths_in(data))
    for entry in suite.skipped:
        needed = " ".join(f"--data {one}=PATH" for one in entry.missing)
        console(stderr=True).print(f"Skipped {entry.name}: it is over data of your own ({needed}).", markup=False)
    if not suite.entries:
        raise UsageError(f"no entry of the suite {suite.name!r} is left: every one needs data of your own")
    return suite


def paths_in(data: list[str] | None) -> dict[str, str]:
    """Return the paths that `--data NAME=PATH` gives, by name."""
    from agentgym.settings import split_pair

    pairs = (split_pair(one, "--data", "NAME=PATH") for one in data or [])
    return {name: path.strip() for name, path in pairs}


def list_() -> None:
    """List the bundled suites."""
    from agentgym.commands.task_set_tables import suites_table
    from agentgym.suites import bundled_suites, load_suite
    from agentgym.terminal.printing import console

    console().print(suites_table([load_suite(name) for name in bundled_suites()]))
    typer.echo("\nShow one with: agentgym tasks show SUITE (add --suite where an environment has the same name).")


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
    """Show what is in a suite or an environment: counts by difficulty, tag and split, lengths of prompts."""
    from agentgym.commands.task_set_tables import stats_table
    from agentgym.suites.stats import task_stats
    from agentgym.suites.validation import ValidationReport
    from agentgym.terminal.printing import console

    report = ValidationReport()
    sets = _sets(name, report, splits, number, settings, data, as_suite)
    for place, reason in report.unchecked.items():
        console(stderr=True).print(f"{place} is left out: {reason}", style="yellow", markup=False)
    for place, gone in report.gone.items():
        told = f"{place}: {len(gone)} pinned tasks cannot be found; is this the data that was pinned?"
        console(stderr=True).print(told, style="yellow", markup=False)
    if not any(one.tasks for one in sets):
        raise UsageError(f"{name!r} has no task that can be shown")
    console().print(stats_table({one.place: task_stats(one.tasks) for one in sets if one.tasks}))


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
            metavar="FILE|FOLDER", help="Texts that no prompt may appear in, such as training data; may be repeated."
        ),
    ] = None,
    ngram: Annotated[int, typer.Option(min=8, help="Words that a prompt and such a text must share in a row.")] = 13,
    concurrency: Annotated[int, typer.Option(min=1, help="Number of concurrent episodes.")] = 16,
    workers: Annotated[str, typer.Option(help="Where environments run: inline, threads, processes.")] = "threads",
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Validate tasks: gold re-checked by the grader, pins, duplicates, and overlap with texts.

    The solution of every task is played, and must get full marks. No problem may stand in two splits or entries, nor
    nearly the same one. Exits with 1 if something is wrong or could not be checked.
    """
    from agentgym.commands.task_set_tables import print_validation, solutions_bar
    from agentgym.overlap.contamination import find_in_texts, texts_in
    from agentgym.suites.validation import ValidationReport, compare_tasks, play_gold
    from agentgym.terminal.printing import console

    report = ValidationReport(repeats_count=names_suite(name, as_suite))
    sets = _sets(name, report, splits, number, settings, data, as_suite, entry)
    compare_tasks(sets, report, near)
    if against:
        texts = (text for path in against for text in texts_in(path))
        report.contamination = find_in_texts([task for one in sets for task in one.tasks], texts, ngram)
    if gold:
        with solutions_bar() as tell:
            play_gold(sets, report, concurrency=concurrency, workers=workers, on_solution=tell)
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
    """Return the tasks that a command is about: the entries of a suite, or splits of an environment."""
    from agentgym.settings import parse_settings
    from agentgym.suites.task_sets import sets_of_env
    from agentgym.suites.validation import entry_sets

    if names_suite(name, as_suite):
        if splits or settings:
            raise UsageError("--split and --set are for environments; a suite says which tasks it has")
        suite = read_suite(name, data)
        return entry_sets([suite.entry(one) for one in entries] if entries else suite.entries, report)
    if data or entries:
        raise UsageError("--data and --entry are for suites; for an environment, name files with --set")
    return sets_of_env(factory_of(name, parse_settings(settings or [])), splits, number)


def factory_of(name: str, arguments: dict[str, Any]) -> EnvFactory:
    """Return what makes an environment. Raises `UsageError` with a suggestion for an unknown argument."""
    from agentgym.foreign.closing import close
    from agentgym.making import full_env_id, make_env
    from agentgym.rollout import EnvFactory

    close(make_env(name, arguments))
    return EnvFactory(full_env_id(name), arguments)
