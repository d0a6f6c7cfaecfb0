"""`agentgym tasks`: show the tasks of an environment or a suite, pin and validate them, or make new ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from agentgym.commands import pin, task_sets
from agentgym.commands.common_options import Settings
from agentgym.commands.rooms import command_of
from agentgym.commands.task_sets import AsSuite, Data, Name
from agentgym.counts import count_of
from agentgym.errors import UsageError
from agentgym.rooms import HARBOR_EXPORT, TASK_BUILDERS

if TYPE_CHECKING:
    from agentgym.task import Task


class _ShowsByDefault(TyperGroup):
    """Makes `agentgym tasks ENV` show tasks: a word that is not a command of the group names an environment."""

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
        str | None, typer.Option(help="The split to take them from; by default test or the nearest split.")
    ] = None,
    number: Annotated[int | None, typer.Option("--number", "-n", min=1, help="Number of tasks; by default 20.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write a manifest that pins exactly these tasks.")] = None,
    settings: Settings = None,
    left_out: Annotated[
        bool, typer.Option("--left-out", help="Show instead the file entries that yield no task, with the reasons.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a broken file entry instead of skipping it.")
    ] = False,
    entry: Annotated[str | None, typer.Option(help="Show the tasks of this entry of a suite.")] = None,
    data: Data = None,
    as_suite: AsSuite = False,
) -> None:
    """Show a suite, or the tasks of an environment, or write them to a manifest. The word `show` is optional."""
    from agentgym.outputs import check_file
    from agentgym.settings import parse_settings
    from agentgym.task import TEST

    if out is not None:
        check_file(out, apart_from=Path(split or TEST))
    if task_sets.names_suite(name, as_suite):
        if split or settings or left_out or strict:
            raise UsageError("--split, --set, --left-out and --strict are for environments; a suite says what it has")
        _show_suite(name, entry, number, out, data)
    elif entry or data:
        raise UsageError("--entry and --data are for suites; for an environment, name files with --set")
    else:
        _show_environment(name, parse_settings(settings or []), split, number or _SHOWN, out, left_out, strict)


_SHOWN = 20
"""How many tasks of an environment are shown by default."""


def _show_suite(name: str, entry: str | None, number: int | None, out: Path | None, data: list[str] | None) -> None:
    from agentgym.commands.task_set_tables import print_suite
    from agentgym.suites import load_suite
    from agentgym.terminal.printing import console

    suite = load_suite(name, task_sets.paths_in(data))
    if entry is None:
        if out is not None:
            raise UsageError("--out writes the tasks of one entry; name it with --entry")
        print_suite(suite, console())
        return
    chosen = suite.entry(entry)
    with chosen.opened() as made:
        _show_tasks(chosen.tasks(made)[:number], out)


def _show_environment(
    env: str,
    arguments: dict[str, Any],
    split: str | None,
    number: int,
    out: Path | None,
    left_out: bool,
    strict: bool,
) -> None:
    from agentgym.commands.options import choose_tasks, with_strict
    from agentgym.foreign.closing import closed_after
    from agentgym.making import make_env
    from agentgym.task import TEST, default_split
    from agentgym.task_files.left_out import LeavesOut

    with closed_after(make_env(env, with_strict(env, arguments, strict))) as made:
        chosen = choose_tasks(made, split or default_split(made.tasks, TEST), number)
        description = getattr(made.tasks, "description", "")
        entries = made.tasks.left_out if isinstance(made.tasks, LeavesOut) else ()
    if left_out:
        for one in entries:
            typer.echo(f"{one.why}: {one}")
        typer.echo(f"{len(entries)} entries are left out")
        return
    _show_tasks(chosen, out)
    if description and out is None:
        typer.echo(description)


def _show_tasks(tasks: Sequence[Task], out: Path | None) -> None:
    """Print tasks, or write them to a manifest."""
    from agentgym.commands.listing import tasks_table
    from agentgym.task import write_manifest
    from agentgym.terminal.printing import console

    if out is None:
        console().print(tasks_table(tasks))
    else:
        write_manifest(out, tasks)
        typer.echo(f"Wrote {count_of(len(tasks), 'task')} to {out}")


tasks_app.command("stats")(task_sets.stats)
tasks_app.command("validate")(task_sets.validate)
tasks_app.command("pin")(pin.pin)
tasks_app.command("split")(pin.split_)


@tasks_app.command("export-harbor")
def export_harbor(
    env: Annotated[str, typer.Argument(metavar="ENV", help="An id such as 'code', or module:Class.")],
    out: Annotated[Path, typer.Option(help="The folder to write the task folders to.", file_okay=False)],
    split: Annotated[
        str | None, typer.Option(help="The split to take them from; by default test or the nearest split.")
    ] = None,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="Number of tasks.")] = 10,
    image: Annotated[
        str, typer.Option(help="The image that they start from; it needs bash and Python 3.11 or newer.")
    ] = "python:3.12-slim",
    settings: Settings = None,
) -> None:
    """Write tasks as Harbor task folders: instruction, Dockerfile, tests that grade as here, and the solution."""
    from agentgym.commands.options import choose_tasks
    from agentgym.foreign.closing import closed_after
    from agentgym.loading import load_named
    from agentgym.making import make_env
    from agentgym.settings import parse_settings
    from agentgym.task import TEST, default_split

    with closed_after(make_env(env, parse_settings(settings or []))) as made:
        chosen = choose_tasks(made, split or default_split(made.tasks, TEST), number)
        written = load_named(HARBOR_EXPORT, "an exporter")(made, env, chosen, out, image)
    typer.echo(f"Wrote {len(written)} task folders to {out}")


@tasks_app.command("sources")
def sources(
    env: Annotated[str | None, typer.Argument(metavar="ENV", help="Show only this environment.")] = None,
) -> None:
    """Show which task files the environments accept, and the --set arguments for them."""
    from agentgym.commands.listing import print_sources

    print_sources(env)


class _Builders(TyperGroup):
    """The kinds of tasks that can be built; each command is in the room of its environment."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(TASK_BUILDERS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return command_of(cmd_name, TASK_BUILDERS[cmd_name]) if cmd_name in TASK_BUILDERS else None


build_app = typer.Typer(cls=_Builders, no_args_is_help=True, help="Make new tasks: agentgym tasks build KIND.")
tasks_app.add_typer(build_app, name="build")


@build_app.callback()
def _build() -> None:
    """Make new tasks: agentgym tasks build KIND."""
