"""The command `agentgym eval`: one environment, suites, or a file to score again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from agentgym.commands.common_options import Seed, Settings, TrustFile
from agentgym.errors import UsageError


def eval_(
    env: Annotated[str | None, typer.Option(help="An id such as 'sql', or module:Class.")] = None,
    suite: Annotated[
        list[str] | None,
        typer.Option(help="A suite (agentgym tasks list) or its YAML file, instead of --env; may be repeated."),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="scripted, random, silent, tiny, a checkpoint's folder or name, vllm:MODEL (sampled with vLLM), "
            "vllm:MODEL@URL (by a vLLM server), openai:MODEL@URL (behind a chat endpoint), or module:factory; "
            "with --suite, it may be repeated.",
            show_default="scripted",
        ),
    ] = None,
    tasks: Annotated[
        str | None, typer.Option(help="A split, or a manifest (JSONL); by default test or the nearest split.")
    ] = None,
    attempts: Annotated[
        int | None, typer.Option("--attempts", "-k", min=1, help="Trajectories per task.", show_default="1")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, help="Maximum number of tasks; default: all, or 100 of an endless split."),
    ] = None,
    settings: Settings = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH", help="Data of your own that a suite asks for; may be repeated."),
    ] = None,
    dialect: Annotated[str | None, typer.Option(help="The format of tool calls; template: the model's own.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a broken task or file entry instead of skipping it.")
    ] = False,
    seed: Seed = 0,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, help="Sampling temperature; 0 is greedy.", show_default="1.0")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Save trajectories here (JSONL; with --suite a folder); run again to resume."),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Number of concurrent episodes.")] = 64,
    max_new_tokens: Annotated[
        int | None, typer.Option(min=1, help="Maximum sampled tokens per turn.", show_default="512")
    ] = None,
    endpoint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE|FILE",
            help="A setting of openai:MODEL@URL, or a YAML file of settings (docs/endpoint.md); may be repeated.",
        ),
    ] = None,
    timeouts: Annotated[
        list[str] | None,
        typer.Option("--timeout", metavar="NAME=SECONDS", help="A time limit: generation, reset, step, tool, episode."),
    ] = None,
    workers: Annotated[
        str, typer.Option(help="Where environments run: inline, threads, processes or ray.")
    ] = "threads",
    ray: Annotated[
        str | None,
        typer.Option(metavar="auto|HOST:PORT", help="The Ray cluster; by default one of this machine alone."),
    ] = None,
    fail_under: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, metavar="SHARE", help="Exit with 1 if less than this share is solved."),
    ] = None,
    rescore: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Score the trajectories of a file again, without a policy: with the graders of today, and with --set "
            "in place of recorded arguments. Grades are appended beside the file.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    trust_file: TrustFile = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Evaluate a policy: success with confidence intervals, pass@k, endings, errors.

    Exits with 1 if an episode still failed after all retries because something around the model broke, if no episode
    finished, or if success is lower than --fail-under. Tasks whose own gold fails are left out and reported.
    """
    from agentgym.rollout.workers.choice import with_address

    chosen = [name for name, value in (("--env", env), ("--suite", suite), ("--rescore", rescore)) if value]
    if rescore is not None and suite is None:
        good = _rescore(rescore, env, tasks, settings, trust_file, fail_under, as_json)
    elif suite and env is None and rescore is None:
        decided = {
            "--tasks": tasks,
            "--set": settings,
            "--dialect": dialect,
            "--strict": strict,
            "--temperature": temperature,
            "--max-new-tokens": max_new_tokens,
            "--timeout": timeouts,
        }
        _refuse(decided, "the suite decides that; change it in a copy of the suite's file")
        options = {
            "seed": seed,
            "out": out,
            "limit": limit,
            "attempts": attempts,
            "concurrency": concurrency,
            "endpoint": tuple(endpoint or ()),
            "workers": with_address(workers, ray),
        }
        good = _play_suites(suite, data or [], policy or ["scripted"], options, fail_under, as_json)
    elif env is not None and suite is None:
        _refuse({"--data": data}, "it names the data of a suite; an environment takes it by --set")
        if len(policy or ()) > 1:
            raise UsageError("several policies are compared on a suite (--suite); with --env, name one")
        one = {
            "policy": (policy or ["scripted"])[0],
            "tasks": tasks,
            "attempts": attempts or 1,
            "limit": limit,
            "seed": seed,
            "temperature": 1.0 if temperature is None else temperature,
            "out": out,
            "endpoint": tuple(endpoint or ()),
            "workers": with_address(workers, ray),
        }
        limits = {"max_new_tokens": max_new_tokens or 512, "max_in_flight": concurrency, "strict": strict}
        good = _play(env, settings, dialect, one, limits, timeouts, fail_under, as_json)
    elif chosen:
        raise UsageError(f"{' and '.join(chosen)} cannot be used together; choose one")
    else:
        raise UsageError(
            "name an environment (--env sql; agentgym list) or a suite (--suite core; agentgym tasks list)"
        )
    if not good:
        raise typer.Exit(1)


def _refuse(options: Mapping[str, object], why: str) -> None:
    """Raise `UsageError` if one of the options was given."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise UsageError(f"{name} cannot be used here: {why}")


def _play(
    env: str,
    settings: list[str] | None,
    dialect: str | None,
    options: Mapping[str, Any],
    limits: Mapping[str, Any],
    timeouts: list[str] | None,
    fail_under: float | None,
    as_json: bool,
) -> bool:
    """Play one environment; return whether all went well."""
    from agentgym.commands.evaluate import EvaluationRequest, run_evaluation
    from agentgym.commands.options import timeouts_in, with_strict
    from agentgym.rollout import Limits
    from agentgym.settings import parse_settings

    given = parse_settings(settings or []) | ({} if dialect is None else {"dialect": dialect})
    request = EvaluationRequest(
        env=env,
        env_kwargs=with_strict(env, given, limits["strict"]),
        limits=Limits(**limits, **timeouts_in(timeouts or [])),
        **options,
    )
    summary = run_evaluation(request, as_json=as_json)
    return not summary.failed and summary.success is not None and summary.success >= (fail_under or 0.0)


def _play_suites(
    names: list[str],
    data: list[str],
    policies: list[str],
    options: Mapping[str, Any],
    fail_under: float | None,
    as_json: bool,
) -> bool:
    """Play suites; return whether all went well."""
    from agentgym.commands.suite_runs import SuitesRequest, print_report, run_suites
    from agentgym.commands.terminal import console
    from agentgym.settings import parse_settings
    from agentgym.suites import load_suite

    places = {name: str(path) for name, path in parse_settings(data, "--data").items()}
    suites = [load_suite(name, places) for name in names]
    report = run_suites(SuitesRequest(suites, policies, **options))
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2))
    else:
        print_report(report, console())
    return not report.broken and not (fail_under is not None and report.under(fail_under))


def _rescore(
    file: Path,
    env: str | None,
    manifest: str | None,
    settings: list[str] | None,
    trust: bool,
    fail_under: float | None,
    as_json: bool,
) -> bool:
    """Score a file again; return whether all of it could be scored, and enough is solved."""
    from agentgym.commands.replay import Replay
    from agentgym.commands.rescore import print_rescored, rescore_file
    from agentgym.commands.terminal import console
    from agentgym.settings import parse_settings
    from agentgym.summary import print_summary

    wanted = Replay(file, None if manifest is None else Path(manifest), env, parse_settings(settings or []), trust)
    report = rescore_file(wanted)
    summary = report.summary()
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2))
    else:
        print_summary(summary, console())
        print_rescored(report, console())
    return not report.refused and summary.success is not None and summary.success >= (fail_under or 0.0)
