"""The command `agentgym`, a thin layer over functions. Each command imports what it needs when it runs."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agentgym.base.command_options import Seed, Settings, TrustFile
from agentgym.base.components import COMMANDS, ENVIRONMENTS, RESULTS
from agentgym.base.errors import AgentGymError, UsageError
from agentgym.base.loading import also_look_in
from agentgym.base.signals import exit_status, interruptible
from agentgym.cli.components import LazyCommand
from agentgym.cli.eval_command import eval_
from agentgym.cli.tasks import tasks_app


class _Commands(TyperGroup):
    """Adds the commands of other folders (`agentgym.base.components`). Reports errors in one line."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return (
            LazyCommand(cmd_name, *COMMANDS[cmd_name]) if cmd_name in COMMANDS else super().get_command(ctx, cmd_name)
        )

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False  # to convert `None`, Typer would import pydantic
        return option

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except AgentGymError as error:
            typer.secho(f"Error: {error}", err=True, fg="red")
            raise SystemExit(2) from None
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise SystemExit(exit_status()) from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

EnvName = Annotated[str, typer.Argument(metavar="ENV", help="An id such as 'sql', or module:Class.")]
JsonLines = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="A JSONL file of trajectories.")
]


def main() -> None:
    """Run the command line; the console entry point."""
    with interruptible():
        app()


def _print_version(requested: bool) -> None:
    if requested:
        from agentgym import __version__

        typer.echo(f"agentgym {__version__}")
        raise typer.Exit


@app.callback()
def _agentgym(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Multi-turn tool-use environments for training LLM agents with reinforcement learning."""
    # A user's own environments and policies (module:Class) are looked up in the current directory.
    also_look_in(os.getcwd())


@app.command("list", rich_help_panel=ENVIRONMENTS)
def list_() -> None:
    """List the installed environments."""
    from agentgym.base.console import console
    from agentgym.cli.environments import environments_table

    console().print(environments_table())


@app.command(rich_help_panel=ENVIRONMENTS)
def cards(
    envs: Annotated[
        list[str] | None,
        typer.Argument(metavar="ENV", help="Ids, module:Class, or families such as 'miniwob'; by default all."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write one file per environment, and README.md, to this folder.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of tasks to play.")] = 10,
    speeds: Annotated[
        Path | None,
        typer.Option(help="Measured speeds to show: results of python -m benchmarks.step_times.", dir_okay=False),
    ] = None,
) -> None:
    """Describe environments in Markdown: tasks, tools, rewards, an example episode, scores."""
    from agentgym.cli.listing import print_cards, write_cards

    if out is None:
        print_cards(envs or [], limit, speeds)
    else:
        write_cards(envs or [], out, limit, speeds)


@app.command(rich_help_panel=ENVIRONMENTS)
def new(
    name: Annotated[str, typer.Argument(help="Name of the environment, e.g. word-count.")],
    path: Annotated[Path, typer.Option(help="The folder to write to.", file_okay=False)] = Path("."),
) -> None:
    """Create a small working environment with tests, as a starting point for your own."""
    from agentgym.cli.scaffold import write_scaffold

    scaffold = write_scaffold(name, path)
    go = "" if path == Path(".") else f"cd {path} && "
    typer.echo(f"Wrote {scaffold.module} and {scaffold.test}. Now try:")
    pytest = f"python -m pytest {scaffold.test.name}"
    if find_spec("pytest") is None:
        pytest = f"pip install pytest && {pytest}"
    for command in (f"agentgym play {scaffold.target}", f"agentgym check {scaffold.target}", pytest):
        typer.echo(f"  {go}{command}")


@app.command(rich_help_panel=ENVIRONMENTS)
def check(
    env: EnvName,
    settings: Settings = None,
    only: Annotated[list[str] | None, typer.Option(help="Run only this check; may be repeated.")] = None,
    seed: Seed = 0,
    failures: Annotated[bool, typer.Option("--failures", help="Show only failures and warnings.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Check which guarantees an environment keeps. Exits with 1 if one is broken."""
    import io
    from contextlib import redirect_stdout

    from agentgym.base.console import console as terminal
    from agentgym.base.settings import parse_settings
    from agentgym.check import print_report, report_json, run_checks
    from agentgym.core.making import make_env

    kwargs = parse_settings(settings or [])
    make_env(env, kwargs).close()
    progress = terminal(stderr=True)
    # The checks report what the environment prints; keep it out of the report itself.
    with redirect_stdout(io.StringIO()), progress.status(f"Checking {env} …") as status:
        report = run_checks(
            env, kwargs, only=only, seed=seed, on_row=lambda row: status.update(f"Checking {env} … {row.name} done")
        )
    if as_json:
        typer.echo(report_json(report, failures))
    else:
        print_report(report, terminal(), failures_only=failures)
    if not report.passed:
        raise typer.Exit(1)


@app.command(rich_help_panel=ENVIRONMENTS)
def play(
    env: EnvName,
    settings: Settings = None,
    seed: Annotated[int | None, typer.Option(help="Chooses the task; random by default.")] = None,
    split: Annotated[str | None, typer.Option(help="The split to draw the task from.")] = None,
    task: Annotated[str | None, typer.Option(help="The id of a task.")] = None,
) -> None:
    """Play an environment yourself, with the same tools and rewards as a model."""
    from agentgym.base.settings import parse_settings
    from agentgym.cli.play import PlaySession
    from agentgym.core.making import make_env
    from agentgym.eval.human import line_reader

    kwargs = parse_settings(settings or [])
    options = {key: value for key, value in (("task", task), ("split", split)) if value is not None}
    PlaySession(lambda: make_env(env, kwargs), seed=seed, options=options, read=line_reader()).play()


app.command("eval", rich_help_panel=RESULTS)(eval_)


@app.command(rich_help_panel=RESULTS)
def compare(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="A B | A... vs B...",
            help="Files or folders of eval --out (or FOLDER@POLICY).",
        ),
    ],
    flips: Annotated[bool, typer.Option("--flips", help="Also list the tasks won and lost.")] = False,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare two runs on the same tasks: differences with intervals, tasks won and lost, and costs.

    To compare several runs of two methods, such as training seeds, write vs between them. Runs with different tasks,
    environments or arguments are refused; only arguments of the policy, such as the dialect, may differ.
    """
    from agentgym.cli.compare import run_comparison

    run_comparison(files, seed=seed, flips=flips, as_json=as_json)


@app.command(rich_help_panel=RESULTS)
def show(
    file: JsonLines,
    index: Annotated[int | None, typer.Option(help="Index of a trajectory in the list, from 0.")] = None,
    task: Annotated[str | None, typer.Option(help="Show this task's trajectories, or the one with this id.")] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Show only trajectories that did not solve their task.")
    ] = False,
    successes: Annotated[
        bool, typer.Option("--successes", help="Show only trajectories that solved their task.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Show long contents in full.")] = False,
    gold: Annotated[
        bool, typer.Option("--gold", help="Also show the task's gold; makes the environment, like replay.")
    ] = False,
    settings: Settings = None,
) -> None:
    """List the trajectories in a file, or show one in full: conversation, rewards and the grader's details."""
    from agentgym.base.console import console as terminal
    from agentgym.base.settings import parse_settings
    from agentgym.cli.replay import Replay
    from agentgym.core.display import MAX_CHARS, print_gold, print_list, print_trajectory, select
    from agentgym.core.trajectory import read_jsonl

    trajectories = select(read_jsonl(file), task=task, failed=failed, successes=successes)
    if not trajectories and (task or failed or successes):
        raise UsageError(f"{str(file)!r} has no such trajectory; list all without options")
    if not trajectories:
        raise UsageError(f"{str(file)!r} contains no trajectory")
    console = terminal()
    if index is None and task is None and len(trajectories) > 1:
        print_list(trajectories, console)
        typer.echo("\nShow one with --index, or those of a task with --task.")
        return
    if index is not None and not -len(trajectories) <= index < len(trajectories):
        raise UsageError(f"--index must be from 0 to {len(trajectories) - 1}, not {index}")
    max_chars = None if full else MAX_CHARS
    for trajectory in trajectories if index is None else [trajectories[index]]:
        print_trajectory(trajectory, console, max_chars)
        if gold:
            request = Replay(file, settings=parse_settings(settings or []))
            print_gold(request.task_of(trajectory), console, max_chars)


@app.command(rich_help_panel=RESULTS)
def view(
    places: Annotated[
        list[Path], typer.Argument(metavar="FILE_OR_FOLDER", help="JSONL files of trajectories, or folders of runs.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write one HTML file that opens without a server.", dir_okay=False)
    ] = None,
    term: Annotated[bool, typer.Option("--term", help="Use the terminal instead of a browser.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the server; 0 picks a free one.")] = 0,
    max_mb: Annotated[
        float, typer.Option(min=0.1, help="Maximum size of the contents in the HTML file, in megabytes, compressed.")
    ] = 50.0,
    trust_file: Annotated[
        bool,
        typer.Option("--trust-file", help="Make any environment named in a file, to show its gates and credit."),
    ] = False,
) -> None:
    """Look at trajectories in a browser: the conversation, the rewards of each turn, the gates.

    Serves on this machine only, until Ctrl-C, and follows a running training or evaluation.
    """
    from agentgym.view.command import ViewRequest, run_view

    run_view(ViewRequest(places, out, term, port, max_mb, trust_file))


@app.command(rich_help_panel=RESULTS)
def export(
    places: Annotated[
        list[Path],
        typer.Argument(metavar="FILE_OR_FOLDER", exists=True, help="JSONL files of trajectories, or eval --out."),
    ],
    out: Annotated[Path, typer.Option(help="The Parquet file to write.", dir_okay=False)],
) -> None:
    """Write one table of episodes (Parquet) for pandas, polars, DuckDB and the like. Its columns: docs/export.md."""
    from agentgym.cli.export import run_export

    run_export(places, out)


@app.command(rich_help_panel=RESULTS)
def replay(
    file: JsonLines,
    tasks: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="The manifest (JSONL) of the tasks, if the environment does not have them.",
        ),
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(help="Replay in this environment: an id, or module:Class (a file may not name a class)."),
    ] = None,
    settings: Settings = None,
    trust_file: TrustFile = False,
) -> None:
    """Replay recorded trajectories and report the first difference of each. Exits with 1 if there is any.

    Only arguments that the environment declares as harmless are read from the file. Give all others with --set: those
    that name code or a location (a file, a folder, a URL), or weaken a sandbox.
    """
    from agentgym.base.settings import parse_settings
    from agentgym.cli.replay import Replay, replay_file

    request = Replay(file, tasks, env, parse_settings(settings or []), trust_file)
    if not replay_file(request):
        raise typer.Exit(1)


app.add_typer(tasks_app, name="tasks", rich_help_panel=ENVIRONMENTS)
