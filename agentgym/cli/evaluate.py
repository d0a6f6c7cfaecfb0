"""`agentgym eval`: run an evaluation with a progress bar and print the summary."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from agentgym.base.components import TEMPLATE_DIALECT_NAME, TRAINING_ARGUMENTS
from agentgym.base.console import console, stdout_to_stderr
from agentgym.base.errors import UsageError, require, require_all
from agentgym.base.loading import load_named
from agentgym.base.output_files import check_file
from agentgym.cli.options import choose_tasks
from agentgym.core.dialects import TEMPLATE
from agentgym.core.env import Env
from agentgym.core.making import arguments_of, closed_after, full_env_id, make_env, recorded_arguments
from agentgym.core.policy import Policy, TokenPolicy
from agentgym.core.registry import class_of
from agentgym.core.task import TEST, Task, default_split
from agentgym.core.task_files import with_defaults
from agentgym.eval.evaluation import OnProgress, Summary, evaluate, evaluate_async, print_summary
from agentgym.eval.human import HumanPolicy, Stopped
from agentgym.eval.policy_loader import TINY, has_weights, is_endpoint, load_policy, model_of, modules_for
from agentgym.eval.results.entry import Entry
from agentgym.rollout import Breaker, EnvFactory, Failures, Limits
from agentgym.rollout.feedback import TypedFeedback
from agentgym.rollout.fitness import check_prompt_fits
from agentgym.rollout.lookahead.search import TypedSearch

if TYPE_CHECKING:
    from agentgym.check.constants import Constant

_BASELINE_SECONDS, _BASELINE_TASKS = 1.0, 10
"""Time limit for the baseline, shown next to the results, and the fewest tasks that it is worth showing for."""

_FAST_SECONDS = 0.1
"""A baseline is played if an evaluated episode spent at most this mean time in the environment."""


@dataclass(frozen=True)
class EvaluationRequest:
    """The options of `agentgym eval`."""

    env: str
    env_kwargs: dict[str, Any]
    policy: str
    tasks: str | Sequence[Task] | None
    """A split, a manifest, or the tasks themselves; `None` means the split `test` or the nearest one."""
    attempts: int
    limit: int | None
    seed: int
    temperature: float
    out: Path | None
    limits: Limits
    endpoint: tuple[str, ...] = ()
    """Settings of an endpoint, each `KEY=VALUE` or a file."""
    workers: str = "threads"
    """Where the environments run (`RolloutEngine`)."""
    search: TypedSearch | None = None
    """Looks ahead with the policy (`agentgym.rollout.lookahead`)."""
    feedback: TypedFeedback | None = None
    """Lets a simulated user comment on the turns (`agentgym.rollout.feedback`)."""
    pinned: bool = False
    """Whether a suite sets the arguments: those of the model's training then change nothing but the dialect."""
    data: tuple[str, ...] = ()
    """Names of arguments with paths of the user's data, which may differ when results are resumed."""


LoadPolicy = Callable[..., Policy]
"""Loads a policy by its name; takes the arguments of `load_policy`."""


def run_evaluation(request: EvaluationRequest, *, as_json: bool = False) -> Summary:
    """Run an evaluation, showing progress on stderr, and print its summary on stdout."""
    with stdout_to_stderr() if as_json else nullcontext(), progress_bars() as progress:
        try:
            summary = evaluated(request, progress)
        except KeyboardInterrupt:
            if request.out is not None:
                progress.console.print(f"Finished trajectories are in {request.out}; run the same command to resume.")
            raise
        is_fast = summary.environment_seconds is not None and summary.environment_seconds <= _FAST_SECONDS
        constant = _best_constant(request) if is_fast else None
    if as_json:
        content = {**summary.to_dict(), "baseline": None if constant is None else asdict(constant)}
        console().out(json.dumps(content, indent=2), highlight=False)
    else:
        print_summary(summary, console())
        if constant is not None:
            console().print(f"Baseline, the best single action: {constant}.", markup=False, highlight=False)
    return summary


def _best_constant(request: EvaluationRequest) -> Constant | None:
    """Return the best constant on the evaluated tasks; `None` if it could not be played on enough of them in time."""
    from agentgym.check.constants import baseline

    # Any exception, since the results must be printed whatever happens here. Constants need no dialect.
    with suppress(Exception):
        arguments = {name: value for name, value in _arguments(request).items() if name != "dialect"}
        with closed_after(make_env(full_env_id(request.env), arguments)) as env:
            constant = baseline(env, _selected_tasks(env, request), _BASELINE_SECONDS)
            return constant if constant is not None and constant.tasks >= _BASELINE_TASKS else None
    return None


def evaluated(
    request: EvaluationRequest, progress: Progress, *, load: LoadPolicy = load_policy, label: str | None = None
) -> Summary:
    """Run an evaluation and return its summary.

    Args:
        request: What to evaluate.
        progress: Shows the progress bars.
        load: Loads the policy.
        label: Names the evaluation in progress bars if there are several.

    Raises:
        AgentGymError: The request is not valid or cannot be run.
    """
    if request.out is not None:
        check_file(request.out, apart_from=Path(request.tasks if isinstance(request.tasks, str) else TEST))
    require_all([*class_of(request.env).packages(request.env_kwargs).items(), *modules_for(request.policy)])
    if (other := other_model(request.search, request.feedback)) is not None:
        require_all(modules_for(other))
    if request.workers.partition(":")[0] == "ray":
        require("ray", "ray")
    factory = EnvFactory(full_env_id(request.env), _arguments(request))
    tasks = tasks_of(factory, request)
    policy = _policy(factory, _request_for(request, request.policy), progress, load, label)
    models = [policy]

    def load_other(name: str | None) -> Policy:
        other = policy if name is None else _policy(factory, _request_for(request, name), progress, load, label)
        models.extend([other] if other is not policy else [])
        return other

    search = None if request.search is None else request.search.loaded(load_other)
    feedback = None if request.feedback is None else request.feedback.loaded(load_other)
    if isinstance(policy, TokenPolicy):
        advice = "Choose a model with a longer context, or arguments of the environment with a shorter prompt."
        check_prompt_fits(policy.codec, policy.context, factory, tasks[0], advice)
    if isinstance(policy, HumanPolicy):
        return _play_by_hand(policy, factory, tasks, request, progress)
    try:
        return evaluate(
            factory,
            policy,
            tasks,
            request.attempts,
            out=request.out,
            limits=request.limits,
            seed=request.seed,
            on_progress=_bar(progress, len(tasks) * request.attempts, label or "episodes"),
            workers=request.workers,
            failures=Failures(breaker=Breaker()),
            search=search,
            feedback=feedback,
            data=request.data,
        )
    finally:
        for model in models:
            if callable(account := getattr(model, "account", None)):
                progress.console.print(f"{model.name}: {account()}", soft_wrap=True, markup=False, highlight=False)


def _request_for(request: EvaluationRequest, policy: str) -> EvaluationRequest:
    """Return the request for one of its policies. With a second model, endpoint settings apply only to endpoints."""
    has_second_model = other_model(request.search, request.feedback) is not None
    return replace(
        request, policy=policy, endpoint=() if has_second_model and not is_endpoint(policy) else request.endpoint
    )


def other_model(search: TypedSearch | None, feedback: TypedFeedback | None) -> str | None:
    """Return the name of the policy that judges a search or comments on turns, if any."""
    return (search.judge if search is not None else None) or (feedback.model if feedback is not None else None)


def _play_by_hand(
    human: HumanPolicy, factory: EnvFactory, tasks: Sequence[Task], request: EvaluationRequest, progress: Progress
) -> Summary:
    """Let a person play: one episode at a time, without time limits and without a progress bar."""
    if request.workers != "threads":
        raise UsageError(
            f"--workers {request.workers} cannot be used with the policy {human.name!r}, which plays in this terminal"
        )
    limits = replace(request.limits, max_in_flight=1, generation_timeout_s=None, episode_timeout_s=None)
    kwargs = {"out": request.out, "limits": limits, "seed": request.seed, "data": request.data}
    progress.stop()
    try:
        return asyncio.run(evaluate_async(factory, human, tasks, request.attempts, **kwargs, on_progress=human.ended))
    except Stopped:
        raise KeyboardInterrupt from None
    finally:
        progress.start()


def _arguments(request: EvaluationRequest) -> dict[str, Any]:
    """Return the environment's arguments. Missing ones, such as the dialect, are those of the model's training.

    An endpoint uses its native tool calls if the environment has an argument `dialect`.
    """
    if is_endpoint(request.policy) and "dialect" in arguments_of(class_of(request.env)):
        return {"dialect": "native", **request.env_kwargs}
    if not has_weights(request.policy):
        return request.env_kwargs
    require("torch", "train")
    model = model_of(request.policy)
    arguments = _trained_arguments(model, request)
    if request.pinned:
        arguments = {**request.env_kwargs, "dialect": arguments["dialect"]}
    if arguments.get("dialect") == TEMPLATE:
        arguments["dialect"] = load_named(TEMPLATE_DIALECT_NAME, "a function")(model)
    return arguments


def _trained_arguments(model: str, request: EvaluationRequest) -> dict[str, Any]:
    trained = load_named(TRAINING_ARGUMENTS, "a function")(model, request.env)
    if model == TINY:
        return dict(with_defaults(class_of(request.env).files, trained, request.env_kwargs, "the recipe"))
    source = f"the model {model!r} was trained in an environment that"
    return dict(recorded_arguments(class_of(request.env), trained, request.env_kwargs, source))


def tasks_of(factory: EnvFactory, request: EvaluationRequest) -> list[Task]:
    """Return the tasks that a request names. Raises `UsageError` if they do not exist."""
    with closed_after(make_env(factory.env_id, factory.kwargs)) as env:
        if request.tasks is None and (split := default_split(env.tasks, TEST)) != TEST:
            console(stderr=True).print(f"There is no split {TEST!r}; evaluating on {split!r}.")
        return _selected_tasks(env, request)


def _selected_tasks(env: Env, request: EvaluationRequest) -> list[Task]:
    if request.tasks is not None and not isinstance(request.tasks, str):
        return list(request.tasks)[: request.limit]
    return choose_tasks(env, request.tasks or default_split(env.tasks, TEST), request.limit)


def _policy(
    factory: EnvFactory, request: EvaluationRequest, progress: Progress, load: LoadPolicy, label: str | None
) -> Policy:
    kwargs = {key: value for key, value in factory.kwargs.items() if key != "dialect"}
    policy = load(
        request.policy,
        env_id=factory.env_id,
        env_kwargs=kwargs,
        dialect=factory.kwargs.get("dialect"),
        temperature=request.temperature,
        seed=request.seed,
        concurrency=request.limits.max_in_flight,
        max_new_tokens=request.limits.max_new_tokens,
        endpoint=request.endpoint,
        progress=_preparation(progress, label),
    )
    suffix = f" at temperature {request.temperature:g}"
    if has_weights(request.policy) and request.temperature != 1.0 and not policy.name.endswith(suffix):
        # The name includes it, so that a file of trajectories is not resumed at another temperature.
        policy.name += suffix
    return policy


def progress_bars() -> Progress:
    """Return progress bars on stderr, disabled unless stderr is a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    shown_on = console(stderr=True)
    return Progress(*columns, console=shown_on, transient=True, disable=not shown_on.is_terminal)


def _preparation(progress: Progress, label: str | None) -> Callable[..., None]:
    """Return a callback that shows the preparation of a policy: a bar, or a line in a log.

    Training the tiny model takes minutes, and without a line in the log the command seems to hang. Steps without
    progress, such as loading, take seconds and get no line.
    """
    bars: dict[str, TaskID] = {}
    begin = "" if label is None else f"{label}: "

    def show(what: str, done: int, of: int, note: str = "") -> None:
        if what not in bars:
            bars[what] = progress.add_task(f"{begin}{what}", total=of, note="")
            if progress.disable and of > 1:
                progress.console.print(f"{begin}{what} …", markup=False, highlight=False, soft_wrap=True)
        progress.update(bars[what], completed=done, total=of, note=note)

    return show


def _bar(progress: Progress, total: int, label: str) -> OnProgress:
    """Return a callback that updates a progress bar of finished episodes, with success rate and failures."""
    bar: list[TaskID] = []
    solved = failed = 0

    def show(entry: Entry, done: int, of: int) -> None:
        nonlocal solved, failed
        if not bar:
            bar.append(progress.add_task(label, total=total, note=""))
        failed += entry.failed
        solved += entry.success
        rate = f"{100 * solved / (done - failed):.0f} % solved" if done > failed else ""
        note = rate + (f"  [bold yellow]{failed} failed[/]" if failed else "")
        progress.update(bar[0], completed=done, note=note)

    return show
