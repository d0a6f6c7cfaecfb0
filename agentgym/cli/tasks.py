"""`agentgym tasks`: show the tasks of an environment or a suite, pin and validate them, or make new ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from agentgym.base.choices import count_of
from agentgym.base.command_options import Settings
from agentgym.base.components import HARBOR_EXPORT, TASK_BUILDERS
from agentgym.base.errors import UsageError
from agentgym.cli import task_sets
from agentgym.cli.components import LazyCommand
from agentgym.cli.task_sets import AsSuite, Data, Name, Near, factory_of, names_suite, paths_in

if TYPE_CHECKING:
    from agentgym.core.task import Task
    from agentgym.eval.suites.pinning import Pinned


def pin(
    name: Name,
    out: Annotated[
        Path | None, typer.Option(help="The YAML file to write; default: that of the suite.", dir_okay=False)
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="The split to take tasks from; default: test or the nearest split.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Maximum number of different tasks; default: 100.")
    ] = None,
    entry: Annotated[
        str | None, typer.Option(help="The entry of the suite; default for a new one: the name of its environment.")
    ] = None,
    settings: Settings = None,
    data: Data = None,
    as_suite: AsSuite = False,
) -> None:
    """Pin the current tasks of a suite, or tasks of an environment as a new entry of a suite.

    With a suite and --entry, that entry gets the tasks of --split and --limit. With an environment, --out names the
    suite, which is created if it does not exist; --data NAME=PATH takes the tasks from your files, and the suite will
    require them under that name. A suite whose content changes gets a new version.
    """
    if names_suite(name, as_suite):
        if settings or (entry is None and (split or limit)):
            raise UsageError("to change the tasks of an entry, use --entry NAME; --set is for environments")
        done = _pin_suite(name, out, entry, split, limit or _NUMBER, data)
    elif out is None:
        raise UsageError(f"name the suite to add the tasks of {name!r} to: --out SUITE.yaml")
    else:
        done = _pin_environment(name, out, split, limit or _NUMBER, entry, settings, data)
    _print_changes(done)


_NUMBER = 100
"""Default number of tasks to pin."""


def split_(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="Manifests (agentgym tasks ENV --out FILE)."),
    ],
    out: Annotated[Path, typer.Option(help="The folder for train.jsonl and test.jsonl.", file_okay=False)],
    test: Annotated[float, typer.Option(help="Share of the tasks for test, above 0 and below 1.")] = 0.2,
    near: Near = 0.9,
) -> None:
    """Divide tasks into train and test, so that equal or nearly equal problems are in the same split.

    The split of a task depends on its content, not on its order or id.
    """
    from agentgym.base.output_files import check_folder
    from agentgym.core.task import manifest_tasks, write_manifest
    from agentgym.eval.overlap import split_tasks

    divided = split_tasks(_unique_tasks(task for file in files for task in manifest_tasks(file)), test, near)
    check_folder(out)
    for split, tasks in divided.items():
        path = out / f"{split}.jsonl"
        write_manifest(path, tasks)
        typer.echo(f"Wrote {count_of(len(tasks), 'task')} to {path}")


def _unique_tasks(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks of several files. Raises `UsageError` if two different tasks have the same id."""
    tasks_by_id: dict[str, Task] = {}
    for task in tasks:
        if tasks_by_id.setdefault(task.id, task).hash != task.hash:
            raise UsageError(f"the files contain two tasks {task.id!r} that differ; give them different ids")
    return list(tasks_by_id.values())


def _pin_suite(
    name: str, out: Path | None, entry: str | None, split: str | None, limit: int, data: list[str] | None
) -> Pinned:
    from agentgym.eval.suites.loading import suite_path
    from agentgym.eval.suites.pinning import copy_suite, pin_suite, pin_tasks

    source = suite_path(name)
    if out is None and source != Path(name).expanduser():
        raise UsageError(f"{name!r} is bundled; name the file of your own version: --out {name}.yaml")
    if out is not None and not (out.exists() and out.samefile(source)):
        if out.exists():
            raise UsageError(
                f"{str(out)!r} exists already; name a new file, or pin that suite: agentgym tasks pin {out}"
            )
        _check_suite_path(out)
        copy_suite(source, out)
    path = out or source
    if entry is not None:
        return pin_tasks(path, entry, split, limit, paths_in(data))
    return pin_suite(path, paths_in(data))


def _pin_environment(
    name: str,
    out: Path,
    split: str | None,
    limit: int,
    entry: str | None,
    settings: list[str] | None,
    data: list[str] | None,
) -> Pinned:
    from agentgym.base.settings import parse_settings
    from agentgym.eval.suites.pinning import add_entry

    _check_suite_path(out)
    arguments, paths = parse_settings(settings or []), paths_in(data)
    described: dict[str, Any] = {"env": name, "name": entry, "arguments": arguments}
    described["data"] = _data_argument(name, paths)
    factory_of(name, {**arguments, **{argument: paths[data_name] for argument, data_name in described["data"].items()}})
    return add_entry(out, {key: value for key, value in described.items() if value}, split, limit, paths)


def _check_suite_path(out: Path) -> None:
    """Raise `UsageError` unless a suite can be written to `out`."""
    from agentgym.eval.suites.loading import ENDINGS

    if out.suffix not in ENDINGS:
        raise UsageError(f"a suite is a YAML file; its name must end with .yaml, unlike {str(out)!r}")
    if not out.parent.is_dir():
        raise UsageError(f"cannot write to {str(out)!r}: the folder {str(out.parent)!r} does not exist")


def _data_argument(env: str, paths: dict[str, str]) -> dict[str, str]:
    """Return the environment's argument for task files, mapped to the name in `paths`; empty without paths."""
    from agentgym.core.registry import class_of

    if not paths:
        return {}
    files = class_of(env).files
    if files is None:
        raise UsageError(f"{env!r} takes no files of tasks, so --data does not apply")
    if len(paths) > 1:
        raise UsageError(f"an entry takes its tasks from one file or folder, not from {', '.join(paths)}")
    return {files.argument: next(iter(paths))}


def _print_changes(done: Pinned) -> None:
    """Print the changes to the suite."""
    for task_id in done.gone:
        typer.echo(f"removed, since it no longer exists: {task_id}")
    for task_id in done.changed:
        typer.echo(f"changed: {task_id}")
    for name in done.skipped:
        typer.echo(f"not changed, since its data is missing: the entry {name}")
    for name in done.unpinned:
        typer.echo(f"no tasks yet: the entry {name} (agentgym tasks pin {done.file} --entry {name})")
    version = f"version {done.version}"
    if done.version != done.was:
        version += f" (it was {done.was})"
    elif done.is_same:
        version += ", unchanged"
    typer.echo(f"{done.file}: {count_of(done.tasks, 'task')} pinned, {version}")


class _ShowsByDefault(TyperGroup):
    """Runs `show` if the first argument is not a command: `agentgym tasks ENV` shows tasks."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["show", *args])


tasks_app = typer.Typer(
    cls=_ShowsByDefault,
    no_args_is_help=True,
    help="Show the tasks of an environment (agentgym tasks ENV) or a suite, pin and validate them, or make new ones. "
    "Files of your own and public data sets: agentgym tasks sources.",
)
tasks_app.command("list")(task_sets.list_)


@tasks_app.command("show")
def show(
    name: Name,
    split: Annotated[
        str | None, typer.Option(help="The split to take tasks from; default: test or the nearest split.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Maximum number of tasks; default: 20.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write a manifest that pins exactly these tasks.")] = None,
    settings: Settings = None,
    left_out: Annotated[
        bool, typer.Option("--left-out", help="Show the file entries that yield no task instead, with the reasons.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a broken file entry instead of skipping it.")
    ] = False,
    entry: Annotated[str | None, typer.Option(help="Show the tasks of this entry of a suite.")] = None,
    data: Data = None,
    as_suite: AsSuite = False,
) -> None:
    """Show a suite, or the tasks of an environment, or write them to a manifest. The word `show` is optional."""
    from agentgym.base.output_files import check_file
    from agentgym.base.settings import parse_settings
    from agentgym.core.task import TEST

    if out is not None:
        check_file(out, apart_from=Path(split or TEST))
    if task_sets.names_suite(name, as_suite):
        if split or settings or left_out or strict:
            raise UsageError("--split, --set, --left-out and --strict are for environments, not for suites")
        _show_suite(name, entry, limit, out, data)
    elif entry or data:
        raise UsageError("--entry and --data are for suites; for an environment, name files with --set")
    else:
        _show_environment(name, parse_settings(settings or []), split, limit or _SHOWN, out, left_out, strict)


_SHOWN = 20
"""Default number of tasks to show."""


def _show_suite(name: str, entry: str | None, limit: int | None, out: Path | None, data: list[str] | None) -> None:
    from agentgym.base.console import console
    from agentgym.cli.task_set_tables import print_suite
    from agentgym.eval.suites import load_suite

    suite = load_suite(name, task_sets.paths_in(data))
    if entry is None:
        if out is not None:
            raise UsageError("--out writes the tasks of a single entry; name it with --entry")
        print_suite(suite, console())
        return
    suite_entry = suite.entry(entry)
    with suite_entry.opened() as env:
        _show_tasks(suite_entry.tasks(env)[:limit], out)


def _show_environment(
    env: str,
    arguments: dict[str, Any],
    split: str | None,
    limit: int,
    out: Path | None,
    left_out: bool,
    strict: bool,
) -> None:
    from agentgym.cli.options import choose_tasks
    from agentgym.core.making import closed_after, make_env, with_strict
    from agentgym.core.task import TEST, default_split
    from agentgym.core.task_files import LeavesOut

    with closed_after(make_env(env, with_strict(env, arguments, strict))) as made_env:
        selected = choose_tasks(made_env, split or default_split(made_env.tasks, TEST), limit)
        description = getattr(made_env.tasks, "description", "")
        entries = made_env.tasks.left_out if isinstance(made_env.tasks, LeavesOut) else ()
    if left_out:
        for skipped in entries:
            typer.echo(f"{skipped.why}: {skipped}")
        typer.echo(f"{len(entries)} entries are left out")
        return
    _show_tasks(selected, out)
    if description and out is None:
        typer.echo(description)


def _show_tasks(tasks: Sequence[Task], out: Path | None) -> None:
    """Print tasks, or write them to a manifest."""
    from agentgym.base.console import console
    from agentgym.cli.listing import tasks_table
    from agentgym.core.task import write_manifest

    if out is None:
        console().print(tasks_table(tasks))
    else:
        write_manifest(out, tasks)
        typer.echo(f"Wrote {count_of(len(tasks), 'task')} to {out}")


tasks_app.command("stats")(task_sets.stats)
tasks_app.command("validate")(task_sets.validate)
tasks_app.command("pin")(pin)
tasks_app.command("split")(split_)


@tasks_app.command("export-harbor")
def export_harbor(
    env: Annotated[str, typer.Argument(metavar="ENV", help="An id such as 'code', or module:Class.")],
    out: Annotated[Path, typer.Option(help="The folder to write the task folders to.", file_okay=False)],
    split: Annotated[
        str | None, typer.Option(help="The split to take tasks from; default: test or the nearest split.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of tasks.")] = 10,
    image: Annotated[
        str, typer.Option(help="The base image; it needs bash and Python 3.11 or newer.")
    ] = "python:3.12-slim",
    settings: Settings = None,
) -> None:
    """Write tasks as Harbor task folders: instruction, Dockerfile, tests with the same grader, and the solution."""
    from agentgym.base.loading import load_named
    from agentgym.base.settings import parse_settings
    from agentgym.cli.options import choose_tasks
    from agentgym.core.making import closed_after, make_env
    from agentgym.core.task import TEST, default_split

    with closed_after(make_env(env, parse_settings(settings or []))) as made_env:
        selected = choose_tasks(made_env, split or default_split(made_env.tasks, TEST), limit)
        written = load_named(HARBOR_EXPORT, "an exporter")(made_env, env, selected, out, image)
    typer.echo(f"Wrote {len(written)} task folders to {out}")


@tasks_app.command("sources")
def sources(
    env: Annotated[str | None, typer.Argument(metavar="ENV", help="Show only this environment.")] = None,
) -> None:
    """Show which task files the environments accept, and the --set arguments for them."""
    from agentgym.cli.listing import print_sources

    print_sources(env)


class _Builders(TyperGroup):
    """The kinds of tasks that can be built, each a command in the folder of its environment."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(TASK_BUILDERS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return LazyCommand(cmd_name, *TASK_BUILDERS[cmd_name]) if cmd_name in TASK_BUILDERS else None


build_app = typer.Typer(cls=_Builders, no_args_is_help=True, help="Make new tasks: agentgym tasks build KIND.")
tasks_app.add_typer(build_app, name="build")


@build_app.callback()
def _build() -> None:
    """Make new tasks: agentgym tasks build KIND."""
