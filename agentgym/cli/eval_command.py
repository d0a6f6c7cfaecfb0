"""The command `agentgym eval`: one environment, suites, or a file to score again."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.base.command_options import Seed, Settings, TrustFile
from agentgym.base.errors import UsageError

if TYPE_CHECKING:
    from agentgym.cli.evaluate import EvaluationRequest
    from agentgym.cli.suite_runs import SuitesRequest


# Options under a heading of the help.
_of_tasks = partial(typer.Option, rich_help_panel="Environment and tasks")
_of_policy = partial(typer.Option, rich_help_panel="Policy")
_of_execution = partial(typer.Option, rich_help_panel="Execution")
_of_results = partial(typer.Option, rich_help_panel="Results")

EnvName = Annotated[str | None, _of_tasks(help="An id such as 'sql', or module:Class.")]
SuiteNames = Annotated[
    list[str] | None,
    _of_tasks(help="A suite (agentgym tasks list) or its YAML file, instead of --env; may be repeated."),
]
Tasks = Annotated[str | None, _of_tasks(help="A split, or a manifest (JSONL); default: test or the nearest split.")]
Attempts = Annotated[int | None, _of_tasks("--attempts", "-k", min=1, help="Trajectories per task; default: 1.")]
Limit = Annotated[
    int | None,
    _of_tasks("--limit", "-n", min=1, help="Maximum number of tasks; default: all, or 100 of an endless split."),
]
Data = Annotated[
    list[str] | None, _of_tasks(metavar="NAME=PATH", help="Your own data for a suite that needs it; may be repeated.")
]
Strict = Annotated[bool, _of_tasks("--strict", help="Stop at a broken task or file entry instead of skipping it.")]

Policies = Annotated[
    list[str] | None,
    _of_policy(
        help="scripted, random, silent, human (you), tiny, smollm2, a checkpoint's folder or name, a GGUF file, "
        "vllm:MODEL (sampled with vLLM), vllm:MODEL@URL (by a vLLM server), openai:MODEL@URL (behind a chat endpoint; "
        "without @URL, the one in OPENAI_BASE_URL), or module:factory; may be repeated, to compare several; default: "
        "scripted, the environment's own solution."
    ),
]
Dialect = Annotated[str | None, _of_policy(help="The format of tool calls; template: the model's own.")]
Lenient = Annotated[
    bool, _of_policy("--lenient", help="Also run calls written in another form than the dialect's; see docs/models.md.")
]
Temperature = Annotated[float | None, _of_policy(min=0.0, help="Sampling temperature; 0 is greedy; default: 1.")]
MaxNewTokens = Annotated[int | None, _of_policy(min=1, help="Maximum sampled tokens per turn; default: 512.")]
EndpointSettings = Annotated[
    list[str] | None,
    _of_policy(
        metavar="KEY=VALUE|FILE",
        help="A setting of openai:MODEL@URL, or a YAML file of settings (docs/endpoint.md); may be repeated.",
    ),
]
Search = Annotated[
    str | None,
    _of_policy(
        metavar="SEARCH",
        help="Look ahead and play the best line found: best-of-n:8, beam:width=4,branch=3, mcts:iterations=16; "
        "with value=majority, signals, judge or oracle (docs/lookahead.md).",
    ),
]
Feedback = Annotated[
    str | None,
    _of_policy(
        metavar="USER",
        help="Let a simulated user comment on each turn: scripted, or openai:MODEL@URL, which sees the gold "
        "but may not reveal it; with ,when=mistake only after mistakes (docs/feedback.md).",
    ),
]

Concurrency = Annotated[int, _of_execution(min=1, help="Number of concurrent episodes.")]
Timeouts = Annotated[
    list[str] | None,
    _of_execution("--timeout", metavar="NAME=SECONDS", help="A time limit: generation, reset, step, tool, episode."),
]
Workers = Annotated[str, _of_execution(help="Where environments run: inline, threads, processes or ray.")]
RayCluster = Annotated[
    str | None,
    _of_execution(metavar="auto|HOST:PORT", help="The Ray cluster; default: a new one on this machine only."),
]

Out = Annotated[
    Path | None, _of_results(help="Save here (JSONL; a folder with --suite or several policies); run again to resume.")
]
FailUnder = Annotated[
    float | None, _of_results(min=0.0, max=1.0, metavar="SHARE", help="Exit with 1 if a smaller share is solved.")
]
AsJson = Annotated[bool, _of_results("--json", help="Print the summary as JSON.")]
Rescore = Annotated[
    Path | None,
    _of_results(
        metavar="FILE",
        help="Score the trajectories of a file again, without a policy, with the current graders; --set overrides "
        "recorded arguments. Grades are appended to a second file in the same folder.",
        exists=True,
        dir_okay=False,
    ),
]


def eval_(
    env: EnvName = None,
    suite: SuiteNames = None,
    policy: Policies = None,
    tasks: Tasks = None,
    attempts: Attempts = None,
    limit: Limit = None,
    settings: Settings = None,
    data: Data = None,
    dialect: Dialect = None,
    lenient: Lenient = False,
    strict: Strict = False,
    seed: Seed = 0,
    temperature: Temperature = None,
    out: Out = None,
    concurrency: Concurrency = 64,
    max_new_tokens: MaxNewTokens = None,
    endpoint: EndpointSettings = None,
    timeouts: Timeouts = None,
    workers: Workers = "threads",
    ray: RayCluster = None,
    search: Search = None,
    feedback: Feedback = None,
    fail_under: FailUnder = None,
    rescore: Rescore = None,
    trust_file: TrustFile = False,
    as_json: AsJson = False,
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
    if rescore is None and policy is None:
        typer.echo("No --policy was chosen: this is the environment's own solution (scripted), a ceiling.", err=True)
    if not good:
        raise typer.Exit(1)


_SOLUTION = "scripted"
"""The policy that plays by default."""
_FLAGS = {"timeouts": "--timeout", "settings": "--set", "max_new_tokens": "--max-new-tokens"}
_OF_PLAYING = (
    "policy",
    "attempts",
    "limit",
    "dialect",
    "lenient",
    "strict",
    "temperature",
    "out",
    "max_new_tokens",
    "endpoint",
)
_DECIDED_BY_SUITE = ("tasks", "settings", "dialect", "lenient", "strict", "temperature", "max_new_tokens", "timeouts")


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
    from agentgym.base.settings import parse_settings
    from agentgym.cli.evaluate import EvaluationRequest, run_evaluation
    from agentgym.cli.options import timeouts_in
    from agentgym.core.making import with_strict
    from agentgym.rollout import Limits
    from agentgym.rollout.workers.choice import with_address

    _refuse(arguments, ("data",), "it names the data of a suite; for an environment, use --set")
    _refuse(arguments, ("trust_file",), "no file of trajectories is read; it is for --rescore")
    policies = arguments.get("policy", [_SOLUTION])
    strict = arguments.get("strict", False)
    chosen = {name: arguments[name] for name in ("dialect", "lenient") if name in arguments}
    request = EvaluationRequest(
        env=arguments["env"],
        env_kwargs=with_strict(arguments["env"], parse_settings(arguments.get("settings", ())) | chosen, strict),
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
    from agentgym.rollout.lookahead import read_search

    return read_search(arguments["search"]) if "search" in arguments else None


def _feedback(arguments: Mapping[str, Any]) -> Any:
    """Return the feedback of `--feedback`, if any."""
    from agentgym.rollout.feedback import read_feedback

    return read_feedback(arguments["feedback"]) if "feedback" in arguments else None


def _play_several(request: EvaluationRequest, policies: Sequence[str], arguments: Mapping[str, Any]) -> bool:
    """Play one environment with several policies into a folder; return whether the command succeeds."""
    from agentgym.cli.evaluate import tasks_of
    from agentgym.cli.suite_runs import SuitesRequest
    from agentgym.core.making import full_env_id
    from agentgym.eval.suites.suite import one_off
    from agentgym.rollout import EnvFactory

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
    from agentgym.base.settings import parse_settings
    from agentgym.cli.suite_runs import SuitesRequest
    from agentgym.eval.suites import load_suite
    from agentgym.rollout.workers.choice import with_address

    _refuse(arguments, _DECIDED_BY_SUITE, "the suite decides that; change it in a copy of the suite's file")
    places = {name: str(path) for name, path in parse_settings(arguments.get("data", ()), "--data").items()}
    request = SuitesRequest(
        [load_suite(name, places) for name in arguments["suite"]],
        arguments.get("policy", [_SOLUTION]),
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
    from agentgym.base.console import console, stdout_to_stderr
    from agentgym.cli.suite_runs import print_report, run_suites

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
    from agentgym.base.console import console, stdout_to_stderr
    from agentgym.base.settings import parse_settings
    from agentgym.cli.replay import Replay
    from agentgym.cli.rescore import print_rescored, rescore_file
    from agentgym.eval.summary import print_summary

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
