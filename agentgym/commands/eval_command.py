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
from agentgym.commands.common_options import Seed, Settings, TrustFile
from agentgym.errors import UsageError

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

    Exits with 1 if an episode still failed after all retries because something around the model broke, if no episode
    finished, or if success is lower than --fail-under. Tasks whose own gold fails are left out and reported.
    """
    given = {name: value for name, value in locals().items() if value is not None and value is not False}
    if suite is not None and (other := next((name for name in ("env", "rescore") if name in given), None)):
        raise UsageError(f"--suite and --{other} cannot be used together; choose one")
    if search is not None and feedback is not None:
        raise UsageError("--search and --feedback cannot be used together: a search plays turns that no user sees")
    if rescore is not None:
        good = _rescore(given)
    elif suite is not None:
        good = _play_suites(given)
    elif env is not None:
        good = _play(given)
    else:
        raise UsageError(
            "name an environment (--env sql; agentgym list) or a suite (--suite core; agentgym tasks list)"
        )
    if not good:
        raise typer.Exit(1)


_FLAGS = {"timeouts": "--timeout", "settings": "--set", "max_new_tokens": "--max-new-tokens"}
_OF_PLAYING = ("policy", "attempts", "limit", "dialect", "strict", "temperature", "out", "max_new_tokens", "endpoint")
_DECIDED_BY_SUITE = ("tasks", "settings", "dialect", "strict", "temperature", "max_new_tokens", "timeouts")


def _refuse(given: Mapping[str, Any], names: Iterable[str], why: str) -> None:
    """Raise `UsageError` if one of these options was given."""
    for name in names:
        if name in given:
            raise UsageError(f"{_FLAGS.get(name, f'--{name}')} cannot be used here: {why}")


def _is_enough(success: float | None, given: Mapping[str, Any]) -> bool:
    """Whether something was played, and enough of it was solved."""
    least = given.get("fail_under", 0.0)
    if success is not None and success < least:
        _say_too_low(f"success is {100 * success:.1f} %", least)
    return success is not None and success >= least


def _say_too_low(what: str, least: float) -> None:
    typer.secho(f"{what}: --fail-under asks for {100 * least:g} %", err=True, fg="red")


def _play(given: Mapping[str, Any]) -> bool:
    """Play one environment; return whether all went well."""
    from agentgym.commands.evaluate import EvaluationRequest, run_evaluation
    from agentgym.commands.options import timeouts_in, with_strict
    from agentgym.rollout import Limits
    from agentgym.rollout.workers.choice import with_address
    from agentgym.settings import parse_settings

    _refuse(given, ("data",), "it names the data of a suite; an environment takes it by --set")
    _refuse(given, ("trust_file",), "no file of trajectories is read; it is for --rescore")
    policies = given.get("policy", ["scripted"])
    strict = given.get("strict", False)
    dialect = {"dialect": given["dialect"]} if "dialect" in given else {}
    request = EvaluationRequest(
        env=given["env"],
        env_kwargs=with_strict(given["env"], parse_settings(given.get("settings", ())) | dialect, strict),
        policy=policies[0],
        tasks=given.get("tasks"),
        attempts=given.get("attempts", 1),
        limit=given.get("limit"),
        seed=given["seed"],
        temperature=given.get("temperature", 1.0),
        out=given.get("out"),
        limits=Limits(
            max_new_tokens=given.get("max_new_tokens", 512),
            max_in_flight=given["concurrency"],
            strict=strict,
            **timeouts_in(given.get("timeouts", ())),
        ),
        endpoint=tuple(given.get("endpoint", ())),
        workers=with_address(given["workers"], given.get("ray")),
        search=_search(given),
        feedback=_feedback(given),
    )
    if len(policies) > 1 or (request.out is not None and request.out.is_dir()):
        return _play_several(request, policies, given)
    summary = run_evaluation(request, as_json="as_json" in given)
    return not summary.failed and _is_enough(summary.success, given)


def _search(given: Mapping[str, Any]) -> Any:
    """Return the search that was typed, if any."""
    from agentgym.lookahead import read_search

    return read_search(given["search"]) if "search" in given else None


def _feedback(given: Mapping[str, Any]) -> Any:
    """Return the feedback that was typed, if any."""
    from agentgym.feedback import read_feedback

    return read_feedback(given["feedback"]) if "feedback" in given else None


def _play_several(request: EvaluationRequest, policies: Sequence[str], given: Mapping[str, Any]) -> bool:
    """Play one environment with several policies, with a folder of results; return whether all went well."""
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
    # What was played is read again to compare the policies; without --out, it is dropped then.
    with tempfile.TemporaryDirectory() if request.out is None else nullcontext(request.out) as folder:
        wanted = SuitesRequest(
            [suite],
            policies,
            seed=request.seed,
            out=Path(folder),
            concurrency=request.limits.max_in_flight,
            endpoint=request.endpoint,
            workers=request.workers,
            search=given.get("search"),
            feedback=given.get("feedback"),
        )
        return _report_suites(wanted, given)


def _play_suites(given: Mapping[str, Any]) -> bool:
    """Play suites; return whether all went well."""
    from agentgym.commands.suite_runs import SuitesRequest
    from agentgym.rollout.workers.choice import with_address
    from agentgym.settings import parse_settings
    from agentgym.suites import load_suite

    _refuse(given, _DECIDED_BY_SUITE, "the suite decides that; change it in a copy of the suite's file")
    places = {name: str(path) for name, path in parse_settings(given.get("data", ()), "--data").items()}
    request = SuitesRequest(
        [load_suite(name, places) for name in given["suite"]],
        given.get("policy", ["scripted"]),
        seed=given["seed"],
        out=given.get("out"),
        limit=given.get("limit"),
        attempts=given.get("attempts"),
        concurrency=given["concurrency"],
        endpoint=tuple(given.get("endpoint", ())),
        workers=with_address(given["workers"], given.get("ray")),
        search=given.get("search"),
        feedback=given.get("feedback"),
    )
    return _report_suites(request, given)


def _report_suites(request: SuitesRequest, given: Mapping[str, Any]) -> bool:
    """Play suites and print what came out; return whether all went well."""
    from agentgym.commands.suite_runs import print_report, run_suites
    from agentgym.commands.terminal import stdout_kept
    from agentgym.terminal.printing import console

    with stdout_kept() if "as_json" in given else nullcontext():
        report = run_suites(request)
    if "as_json" in given:
        typer.echo(json.dumps(report.to_dict(), indent=2))
    else:
        print_report(report, console())
    least = given.get("fail_under", 0.0)
    if report.under(least):
        _say_too_low("the success of a policy in an entry is too low", least)
    return not report.broken and not report.under(least)


def _rescore(given: Mapping[str, Any]) -> bool:
    """Score a file again; return whether all of it could be scored, and enough is solved."""
    from agentgym.commands.replay import Replay
    from agentgym.commands.rescore import print_rescored, rescore_file
    from agentgym.commands.terminal import stdout_kept
    from agentgym.settings import parse_settings
    from agentgym.summary import print_summary
    from agentgym.terminal.printing import console

    _refuse(given, (*_OF_PLAYING, "search", "feedback", "data", "timeouts"), "--rescore plays what was recorded")
    manifest = Path(given["tasks"]) if "tasks" in given else None
    settings = parse_settings(given.get("settings", ()))
    with stdout_kept() if "as_json" in given else nullcontext():
        report = rescore_file(Replay(given["rescore"], manifest, given.get("env"), settings, "trust_file" in given))
    summary = report.summary()
    if "as_json" in given:
        typer.echo(json.dumps(report.to_dict(), indent=2))
    else:
        print_summary(summary, console())
        print_rescored(report, console())
    return not report.refused and _is_enough(summary.success, given)
