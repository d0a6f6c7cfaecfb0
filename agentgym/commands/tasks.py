"""`agentgym tasks`: show the tasks of an environment, pin them in a manifest, or make new ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agentgym.commands.rooms import command_of
from agentgym.commands.set_option import Settings
from agentgym.rooms import TASK_BUILDERS


class _ShowsByDefault(TyperGroup):
    """Makes `agentgym tasks ENV` show tasks: a word that is not a command of the group names an environment."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["show", *args])


tasks_app = typer.Typer(
    cls=_ShowsByDefault,
    no_args_is_help=True,
    help="Show the tasks of an environment (agentgym tasks ENV), pin them, or make new ones. "
    "Files of your own and public data sets: agentgym tasks sources.",
)


@tasks_app.command("show")
def show(
    env: Annotated[str, typer.Argument(metavar="ENV", help="An id such as 'sql', or module:Class.")],
    split: Annotated[
        str | None, typer.Option(help="The split to take them from; by default test or the nearest split.")
    ] = None,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="Number of tasks.")] = 20,
    out: Annotated[Path | None, typer.Option(help="Write a manifest that pins exactly these tasks.")] = None,
    settings: Settings = None,
    left_out: Annotated[
        bool, typer.Option("--left-out", help="Show instead the file entries that yield no task, with the reasons.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a broken file entry instead of skipping it.")
    ] = False,
) -> None:
    """Show the tasks of an environment, or write them to a manifest. The word `show` is optional."""
    from agentgym.commands.listing import tasks_table
    from agentgym.commands.options import choose_tasks, make_env, with_strict
    from agentgym.commands.outputs import check_file
    from agentgym.commands.terminal import console
    from agentgym.settings import parse_settings
    from agentgym.task import TEST, default_split, write_manifest
    from agentgym.task_files.left_out import LeavesOut

    if out is not None:
        check_file(out, apart_from=Path(split or TEST))
    made = make_env(env, with_strict(env, parse_settings(settings or []), strict))
    try:
        chosen = choose_tasks(made, split or default_split(made.tasks, TEST), number)
        description = getattr(made.tasks, "description", "")
        entries = made.tasks.left_out if isinstance(made.tasks, LeavesOut) else ()
    finally:
        made.close()
    if left_out:
        for entry in entries:
            typer.echo(f"{entry.why}: {entry}")
        typer.echo(f"{len(entries)} entries are left out")
        return
    if out is None:
        console().print(tasks_table(chosen))
        if description:
            typer.echo(description)
        return
    write_manifest(out, chosen)
    typer.echo(f"Wrote {len(chosen)} tasks to {out}")


@tasks_app.command("sources")
def sources(
    env: Annotated[str | None, typer.Argument(metavar="[ENV]", help="Show only this environment.")] = None,
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
