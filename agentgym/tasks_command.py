"""`agentgym tasks`: look at the tasks of an environment, pin them in a manifest, or make new ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agentgym.errors import UsageError


class _ShowsByDefault(TyperGroup):
    """`agentgym tasks ENV` shows tasks; what is no command of the group is the name of an environment."""

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
        str | None, typer.Option(help="The split to take them from; by default test, or what comes nearest to it.")
    ] = None,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="How many.")] = 20,
    out: Annotated[Path | None, typer.Option(help="Write a manifest that pins these tasks exactly.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="An argument of the environment, such as a file of tasks (agentgym tasks sources); may be repeated.",
        ),
    ] = None,
    left_out: Annotated[
        bool, typer.Option("--left-out", help="Show the entries of files that make no task instead, with the reasons.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a broken entry of a file, instead of leaving it out.")
    ] = False,
) -> None:
    """Show the tasks of an environment, or write them to a manifest. The word `show` may be left out."""
    from agentgym.left_out import LeavesOut
    from agentgym.listing import tasks_table
    from agentgym.options import choose_tasks, make_env, parse_settings, with_strict
    from agentgym.outputs import check_file
    from agentgym.task import TEST, default_split, write_manifest
    from agentgym.terminal import console

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
    env: Annotated[str | None, typer.Argument(metavar="[ENV]", help="Only those of this environment.")] = None,
) -> None:
    """Show which files of tasks the environments take, and how each is named with --set."""
    from agentgym.listing import print_sources

    print_sources(env)


@tasks_app.command("build")
def build(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="What to make tasks of; 'swe' is the only kind so far.")],
    sources: Annotated[
        list[Path],
        typer.Option("--from", exists=True, help="A Python package with tests: a folder or sdist; may be repeated."),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write instances and repositories to.", file_okay=False)],
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="Validated tasks wanted in all.")] = 100,
    seed: Annotated[int, typer.Option(help="Where all randomness comes from.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Test runs at the same time.")] = 1,
    hide_tests: Annotated[
        bool, typer.Option(help="Leave the tests that find the bug out of what the policy sees.")
    ] = True,
    trust: Annotated[
        bool, typer.Option("--trust", help="Run the packages' tests without a sandbox, as when you install them.")
    ] = False,
) -> None:
    """Make validated bug-fixing tasks of real packages by injecting bugs that their tests find."""
    if kind != "swe":
        raise UsageError(f"tasks of kind {kind!r} cannot be built; there is: swe")
    from rich.console import Console

    from agentgym.outputs import check_folder, held
    from agentgym.tasks.swe.build_command import BuildRequest, run_build

    check_folder(out)
    request = BuildRequest(sources, out, count=number, seed=seed, workers=workers, hide_tests=hide_tests, trusted=trust)
    with held(out), Console(stderr=True).status("Building …") as status:
        reports = run_build(request, tell=lambda line: status.update(f"Building … {line}"))
    made = sum(len(report.instances) for report in reports)
    typer.echo(f"Wrote {made} validated tasks of {len(reports)} packages to {out}")
    if not made:
        raise typer.Exit(1)
