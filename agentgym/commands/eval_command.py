"""The command `agentgym eval`: one environment, suites, or a file to score again."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from agentgym.commands import eval_options as options
from agentgym.errors import UsageError
from agentgym.terminal.options import Seed, Settings, TrustFile

if TYPE_CHECKING:
    from agentgym.commands.evaluate import EvaluationRequest
    from agentgym.commands.suite_runs import SuitesRequest


def eval_(
    env: options.EnvName = None,
    suite: options.SuiteNames = None,
    policy: options.Policies = None,
    tasks: options.Tasks = None,
    attempts: options.Attempts = None,
    limit: options.Limit = None,
    settings: Settings = None,
    data: options.Data = None,
    dialect: options.Dialect = None,
    strict: options.Strict = False,
    seed: Seed = 0,
    temperature: options.Temperature = None,
    out: options.Out = None,
    concurrency: options.Concurrency = 64,
    max_new_tokens: options.MaxNewTokens = None,
    endpoint: options.EndpointSettings = None,
    timeouts: options.Timeouts = None,
    workers: options.Workers = "threads",
    ray: options.RayCluster = None,
    search: options.Search = None,
    feedback: options.Feedback = None,
    fail_under: options.FailUnder = None,
    rescore: options.Rescore = None,
    trust_file: TrustFile = False,
    as_json: options.AsJson = False,
) -> None:
    """Evaluate a policy: success with confidence intervals, pass@k, endings, errors.

    Exits with 1 if an episode failed after all retries for a reason other than the model, if no episode finished, or
    if success is lower than --fail-under. Tasks whose own gold fails are left out and reported.
    """
    arguments = {name: value for name, value in locals().items() if value is not None and value is not False}
    if suite is not None and (other := next((name for name in ("env", "rescore") if name in arguments), None)):
        raise UsageError(f"--suite and --{other} cannot be used together; choose one")
    if search is not None and feedback is not None:
        raise UsageError("--search and --feedback cannot be used together: no user sees the turns of a search")
    if rescore is not None:
        good = _rescore(arguments)
    elif suite is not None:
        good = _play_suites(arguments)
    elif env is not None:
        good = _play(arguments)
    else:
        raise UsageError(
            "name an environment (--env sql; agentgym list) or a suite (--suite core; agentgym tasks list)"
        )
    if not good:
        raise typer.Exit(1)


_FLAGS = {"timeouts": "--timeout", "settings": "--set", "max_new_tokens": "--max-new-tokens"}
_OF_PLAYING = ("policy", "attempts", "limit", "dialect", "strict", "temperature", "out", "max_new_tokens", "endpoint")
_DECIDED_BY_SUITE = ("tasks", "settings", "dialect", "strict", "temperature", "max_new_tokens", "timeouts")


def _refuse(arguments: Mapping[str, Any], names: Iterable[str], why: str) -> None:
    """Raise `UsageError` if one of these options is set."""
    for name in names:
        if name in arguments:
            raise UsageError(f"{_FLAGS.get(name, f'--{name}')} cannot be used here: {why}")


def _is_enough(success: float | None, arguments: Mapping[str, Any]) -> bool:
    """Whether an episode finished, and `--fail-under` is met."""
    least = arguments.get("fail_under", 0.0)
    if success is not None and success < least:
        _say_too_low(f"success is {100 * success:.1f} %", least)
    return success is not None and success >= least


def _say_too_low(what: str, least: float) -> None:
    typer.secho(f"{what}: --fail-under asks for {100 * least:g} %", err=True, fg="red")


def _play(arguments: Mapping[str, Any]) -> bool:
    """Play one environment; return whether the command succeeds."""
    from agentgym.commands.evaluate import EvaluationRequest, run_evaluation
    from agentgym.commands.options import timeouts_in
    from agentgym.making import with_strict
    from agentgym.rollout import Limits
    from agentgym.rollout.workers.choice import with_address
    from agentgym.settings import parse_settings

    _refuse(arguments, ("data",), "it names the data of a suite; for an environment, use --set")
    _refuse(arguments, ("trust_file",), "no file of trajectories is read; it is for --rescore")
    policies = arguments.get("policy", ["scripted"])
    strict = arguments.get("strict", False)
    dialect = {"dialect": arguments["dialect"]} if "dialect" in arguments else {}
    request = EvaluationRequest(
        env=arguments["env"],
        env_kwargs=with_strict(arguments["env"], parse_settings(arguments.get("settings", ())) | dialect, strict),
        policy=policies[0],
        tasks=arguments.get("tasks"),
        attempts=arguments.get("attempts", 1),
        limit=arguments.get("limit"),
        seed=arguments["seed"],
        temperature=arguments.get("temperature", 1.0),
        out=arguments.get("out"),
        limits=Limits(
            max_new_tokens=arguments.get("max_new_tokens", 512),
            max_in_flight=arguments["concurrency"],
            strict=strict,
            **timeouts_in(arguments.get("timeouts", ())),
        ),
        endpoint=tuple(arguments.get("endpoint", ())),
        workers=with_address(arguments["workers"], arguments.get("ray")),
        search=_search(arguments),
        feedback=_feedback(arguments),
    )
    if len(policies) > 1 or (request.out is not None and request.out.is_dir()):
        return _play_several(request, policies, arguments)
    summary = run_evaluation(request, as_json="as_json" in arguments)
    return not summary.failed and _is_enough(summary.success, arguments)


def _search(arguments: Mapping[str, Any]) -> Any:
    """Return the search of `--search`, if any."""
    from agentgym.lookahead import read_search

    return read_search(arguments["search"]) if "search" in arguments else None


def _feedback(arguments: Mapping[str, Any]) -> Any:
    """Return the feedback of `--feedback`, if any."""
    from agentgym.feedback import read_feedback

    return read_feedback(arguments["feedback"]) if "feedback" in arguments else None


def _play_several(request: EvaluationRequest, policies: Sequence[str], arguments: Mapping[str, Any]) -> bool:
    """Play one environment with several policies into a folder; return whether the command succeeds."""
    from agentgym.commands.evaluate import tasks_of
    from agentgym.commands.suite_runs import SuitesRequest
    from agentgym.making import full_env_id
    from agentgym.rollout import EnvFactory
    from agentgym.suites.one_off import one_off

    tasks = tasks_of(EnvFactory(full_env_id(request.env), request.env_kwargs), request)
    suite = one_off(
        request.env,
        request.env_kwargs,
        tasks,
        attempts=request.attempts,
        limits=request.limits,
        temperature=request.temperature,
    )
    # The comparison of the policies reads the trajectories from a folder; without --out, it is temporary.
    with tempfile.TemporaryDirectory() if request.out is None else nullcontext(request.out) as folder:
        suites_request = SuitesRequest(
            [suite],
            policies,
            seed=request.seed,
            out=Path(folder),
            concurrency=request.limits.max_in_flight,
            endpoint=request.endpoint,
            workers=request.workers,
            search=arguments.get("search"),
            feedback=arguments.get("feedback"),
        )
        return _report_suites(suites_request, arguments)


def _play_suites(arguments: Mapping[str, Any]) -> bool:
    """Play suites; return whether the command succeeds."""
    from agentgym.commands.suite_runs import SuitesRequest
    from agentgym.rollout.workers.choice import with_address
    from agentgym.settings import parse_settings
    from agentgym.suites import load_suite

    _refuse(arguments, _DECIDED_BY_SUITE, "the suite decides that; change it in a copy of the suite's file")
    places = {name: str(path) for name, path in parse_settings(arguments.get("data", ()), "--data").items()}
    request = SuitesRequest(
        [load_suite(name, places) for name in arguments["suite"]],
        arguments.get("policy", ["scripted"]),
        seed=arguments["seed"],
        out=arguments.get("out"),
        limit=arguments.get("limit"),
        attempts=arguments.get("attempts"),
        concurrency=arguments["concurrency"],
        endpoint=tuple(arguments.get("endpoint", ())),
        workers=with_address(arguments["workers"], arguments.get("ray")),
        search=arguments.get("search"),
        feedback=arguments.get("feedback"),
    )
    return _report_suites(request, arguments)


def _report_suites(request: SuitesRequest, arguments: Mapping[str, Any]) -> bool:
    """Play suites and print the results; return whether the command succeeds."""
    from agentgym.commands.suite_runs import print_report, run_suites
    from agentgym.terminal.console import console, stdout_to_stderr

    with stdout_to_stderr() if "as_json" in arguments else nullcontext():
        report = run_suites(request)
    if "as_json" in arguments:
        typer.echo(json.dumps(report.to_dict(), indent=2))
    else:
        print_report(report, console())
    least = arguments.get("fail_under", 0.0)
    if report.under(least):
        _say_too_low("the success of a policy in an entry is too low", least)
    return not report.broken and not report.under(least)


def _rescore(arguments: Mapping[str, Any]) -> bool:
    """Score a file again; return whether all of it could be scored and `--fail-under` is met."""
    from agentgym.commands.replay import Replay
    from agentgym.commands.rescore import print_rescored, rescore_file
    from agentgym.settings import parse_settings
    from agentgym.summary import print_summary
    from agentgym.terminal.console import console, stdout_to_stderr

    _refuse(arguments, (*_OF_PLAYING, "search", "feedback", "data", "timeouts"), "--rescore plays what was recorded")
    manifest = Path(arguments["tasks"]) if "tasks" in arguments else None
    settings = parse_settings(arguments.get("settings", ()))
    with stdout_to_stderr() if "as_json" in arguments else nullcontext():
        report = rescore_file(
            Replay(arguments["rescore"], manifest, arguments.get("env"), settings, "trust_file" in arguments)
        )
    summary = report.summary()
    if "as_json" in arguments:
        typer.echo(json.dumps(report.to_dict(), indent=2))
    else:
        print_summary(summary, console())
        print_rescored(report, console())
    return not report.refused and _is_enough(summary.success, arguments)
