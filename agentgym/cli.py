"""The command `agentgym`: a thin layer over functions. Each command imports what it needs when it runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agentgym.doctor_command import doctor
from agentgym.errors import AgentGymError, UsageError, require
from agentgym.index_command import index_app
from agentgym.serve_command import serve_app
from agentgym.tasks_command import tasks_app


class _Commands(TyperGroup):
    """Tells what went wrong in one line instead of a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except AgentGymError as error:
            typer.secho(f"Error: {error}", err=True, fg="red")
            raise SystemExit(2) from None
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise SystemExit(130) from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

EnvName = Annotated[str, typer.Argument(metavar="ENV", help="An id such as 'sql', or module:Class.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="An argument of the environment, such as a file of tasks (agentgym tasks sources); may be repeated.",
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Stop at a broken task or entry of a file, instead of leaving it out.")
]
Seed = Annotated[int, typer.Option(help="Where all randomness comes from.")]
JsonLines = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="A JSONL file of trajectories.")
]


def main() -> None:
    """Run the command line; the console entry point."""
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
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
    # Environments and policies of one's own (module:Class) are looked for where the command is given.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


@app.command("list")
def list_() -> None:
    """List the environments that are installed."""
    from agentgym.listing import environments_table
    from agentgym.terminal import console

    console().print(environments_table())


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="What it shall be called, e.g. word-count.")],
    path: Annotated[Path, typer.Option(help="The folder to write to.", file_okay=False)] = Path("."),
) -> None:
    """Write a small environment that works, with tests, to make your own."""
    from agentgym.scaffold import write_scaffold

    made = write_scaffold(name, path)
    go = "" if path == Path(".") else f"cd {path} && "
    typer.echo(f"Wrote {made.module} and {made.test}. Now try:")
    for command in (f"agentgym play {made.target}", f"agentgym check {made.target}", f"pytest {made.test.name}"):
        typer.echo(f"  {go}{command}")


@app.command()
def check(
    env: EnvName,
    settings: Settings = None,
    only: Annotated[list[str] | None, typer.Option(help="Run this check alone; may be repeated.")] = None,
    seed: Seed = 0,
    failures: Annotated[bool, typer.Option("--failures", help="Show only what failed, and warnings.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Find out which guarantees an environment keeps. Exits with 1 if one is broken."""
    import io
    from contextlib import redirect_stdout

    from agentgym.checks import print_report, report_json, run_checks
    from agentgym.options import make_env, parse_settings
    from agentgym.terminal import console as terminal

    kwargs = parse_settings(settings or [])
    make_env(env, kwargs).close()
    progress = terminal(stderr=True)
    # What the environment prints is reported, and kept apart from the report.
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


@app.command()
def play(
    env: EnvName,
    settings: Settings = None,
    seed: Annotated[int | None, typer.Option(help="Chooses the task; another one each time if not given.")] = None,
    split: Annotated[str | None, typer.Option(help="The split that the task is drawn from.")] = None,
    task: Annotated[str | None, typer.Option(help="The id of a task.")] = None,
) -> None:
    """Play an environment yourself, with the same tools and rewards as a model."""
    from agentgym.options import make_env, parse_settings
    from agentgym.play import Session, line_reader

    kwargs = parse_settings(settings or [])
    options = {key: value for key, value in (("task", task), ("split", split)) if value is not None}
    Session(lambda: make_env(env, kwargs), seed=seed, options=options, read=line_reader()).play()


@app.command("eval")
def eval_(
    env: Annotated[str, typer.Option(help="An id such as 'sql', or module:Class.")],
    policy: Annotated[
        str, typer.Option(help="scripted, random, silent, tiny, a checkpoint's folder or name, or module:factory.")
    ] = "scripted",
    tasks: Annotated[
        str | None, typer.Option(help="A split, or a manifest (JSONL); by default test, or what comes nearest to it.")
    ] = None,
    attempts: Annotated[int, typer.Option("--attempts", "-k", min=1, help="Trajectories per task.")] = 1,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, help="At most so many tasks; without it all, or 100 of an endless split."),
    ] = None,
    settings: Settings = None,
    dialect: Annotated[str | None, typer.Option(help="How tool calls are written.")] = None,
    strict: Strict = False,
    seed: Seed = 0,
    temperature: Annotated[float, typer.Option(min=0.0, help="Of sampling; 0 takes the likeliest tokens.")] = 1.0,
    out: Annotated[
        Path | None, typer.Option(help="Keep trajectories here (JSONL); run again to continue.", dir_okay=False)
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Episodes at the same time.")] = 64,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Sampled tokens per turn.")] = 512,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Evaluate a policy: success with confidence intervals, pass@k, endings, errors.

    Exits with 1 if an episode failed after all its retries, because something around the model broke, or if no episode
    came to its end; how often tasks were solved has no part in it. Tasks whose own gold fails are left out and named.
    """
    from agentgym.evaluation_command import EvaluationRequest, run_evaluation
    from agentgym.options import parse_settings, with_strict
    from agentgym.rollout import Limits

    given = parse_settings(settings or []) | ({} if dialect is None else {"dialect": dialect})
    request = EvaluationRequest(
        env=env,
        env_kwargs=with_strict(env, given, strict),
        policy=policy,
        tasks=tasks,
        attempts=attempts,
        limit=limit,
        seed=seed,
        temperature=temperature,
        out=out,
        limits=Limits(max_new_tokens=max_new_tokens, max_in_flight=concurrency, strict=strict),
    )
    summary = run_evaluation(request, as_json=as_json)
    if summary.failed or summary.success is None:
        raise typer.Exit(1)


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []})
def train(ctx: typer.Context) -> None:
    """Train a model. See: agentgym train --help"""
    require("torch", "train")
    from agentgym.trainers.command import main as train_main

    train_main(ctx.args)


@app.command()
def show(
    file: JsonLines,
    index: Annotated[int | None, typer.Option(help="Number of a trajectory in the list, from 0.")] = None,
    task: Annotated[str | None, typer.Option(help="Trajectories of this task, or the one with this id.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that did not solve their task.")] = False,
    successes: Annotated[bool, typer.Option("--successes", help="Only those that did.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Do not cut long contents.")] = False,
    gold: Annotated[
        bool, typer.Option("--gold", help="Show the gold of the task too. Makes the environment, as replay does.")
    ] = False,
    settings: Settings = None,
) -> None:
    """List the trajectories of a file, or show one in full: the conversation, its rewards and what decided them."""
    from agentgym.options import parse_settings
    from agentgym.replay_command import Replay
    from agentgym.show import MAX_CHARS, print_gold, print_list, print_trajectory, select
    from agentgym.terminal import console as terminal
    from agentgym.trajectory import read_jsonl

    found = select(read_jsonl(file), task=task, failed=failed, successes=successes)
    if not found and (task or failed or successes):
        raise UsageError(f"{str(file)!r} has no such trajectory; without options, all are listed")
    if not found:
        raise UsageError(f"{str(file)!r} holds no trajectory")
    console = terminal()
    if index is None and task is None and len(found) > 1:
        print_list(found, console)
        typer.echo("\nShow one with --index, or those of a task with --task.")
        return
    if index is not None and not -len(found) <= index < len(found):
        raise UsageError(f"--index must be from 0 to {len(found) - 1}, not {index}")
    max_chars = None if full else MAX_CHARS
    for trajectory in found if index is None else [found[index]]:
        print_trajectory(trajectory, console, max_chars)
        if gold:
            wanted = Replay(file, settings=parse_settings(settings or []))
            print_gold(wanted.task_of(trajectory), console, max_chars)


@app.command()
def replay(
    file: JsonLines,
    tasks: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="The manifest, if the tasks came from one.")
    ] = None,
    env: Annotated[
        str | None, typer.Option(help="Play them here: an id, or module:Class, which a file alone cannot name.")
    ] = None,
    settings: Settings = None,
    trust_file: Annotated[
        bool,
        typer.Option("--trust-file", help="Take any class and any argument from the file, as if you had typed it."),
    ] = False,
) -> None:
    """Play recorded trajectories again and say where they first differ. Exits with 1 if one does.

    Of the arguments in the file only those are taken that an environment declares as harmless. Give all others with
    --set: what names code or a place (a file, a folder, a URL), or weakens a sandbox.
    """
    from agentgym.options import parse_settings
    from agentgym.replay_command import Replay, replay_file

    wanted = Replay(file, tasks, env, parse_settings(settings or []), trust_file)
    if not replay_file(wanted):
        raise typer.Exit(1)


app.command()(doctor)
app.add_typer(index_app, name="index")
app.add_typer(serve_app, name="serve")
app.add_typer(tasks_app, name="tasks")
