"""`agentgym eval --suite`: play several policies on suites and write a folder of results."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from agentgym.base.console import console as terminal
from agentgym.base.errors import AgentGymError, UsageError
from agentgym.cli.evaluate import EvaluationRequest, evaluated, other_model, progress_bars
from agentgym.core.display import plain
from agentgym.core.policy import Policy
from agentgym.core.task import Task
from agentgym.eval.comparison import Comparison, Run, compare
from agentgym.eval.comparison.runs import canonical, environment_names, recorded_in, run_of_recorded
from agentgym.eval.comparison.tables import differences_table
from agentgym.eval.policy_loader import TINY, has_weights, is_endpoint, load_policy, model_of
from agentgym.eval.results.entry import hash_of
from agentgym.eval.results.folder import ResultsFolder, ResultsPlan
from agentgym.eval.suites import Suite, SuiteEntry
from agentgym.eval.suites.suite import UNPINNED
from agentgym.eval.summary import Rate, Summary
from agentgym.rollout.feedback import read_feedback
from agentgym.rollout.lookahead.search import read_search


@dataclass(frozen=True)
class SuitesRequest:
    """The options of `agentgym eval --suite`."""

    suites: Sequence[Suite]
    policies: Sequence[str]
    """Values of `--policy`."""
    seed: int = 0
    out: Path | None = None
    """The folder of results."""
    limit: int | None = None
    """Maximum number of tasks per entry; the results are then not comparable to those of the suite."""
    attempts: int | None = None
    """Attempts per task, in place of the suite's."""
    concurrency: int = 64
    endpoint: tuple[str, ...] = ()
    workers: str = "threads"
    search: str | None = None
    """Value of `--search`, used with every policy."""
    feedback: str | None = None
    """Value of `--feedback`."""

    @property
    def plan(self) -> ResultsPlan:
        """Everything that the results depend on."""
        search = None if self.search is None else read_search(self.search).name
        feedback = None if self.feedback is None else read_feedback(self.feedback).name
        overrides = {"limit": self.limit, "attempts": self.attempts, "search": search, "feedback": feedback}
        settings = {name: value for name, value in overrides.items() if value is not None}
        for suite in self.suites:
            if suite.version == UNPINNED:
                settings |= _settings_of(suite.all_entries[0])
        return ResultsPlan(
            tuple(suite.id.to_dict() for suite in self.suites if suite.version != UNPINNED), self.seed, settings
        )


def _settings_of(entry: SuiteEntry) -> dict[str, Any]:
    """Return the settings of an entry that belongs to no suite, with a hash in place of its tasks."""
    content = entry.content()
    tasks = hash_of(content.pop("pins"))
    return {**content, "tasks": tasks}


@dataclass(frozen=True)
class EntryRun:
    """A policy on an entry of a suite, with the result once it was played."""

    suite: Suite
    entry: SuiteEntry
    policy: str
    summary: Summary | None = None
    error: str | None = None
    """The reason if the summary is missing."""


@dataclass
class SuitesReport:
    """The results of all policies on all entries."""

    suites: Sequence[Suite]
    pairs: list[EntryRun] = field(default_factory=list)
    skipped: list[tuple[Suite, SuiteEntry]] = field(default_factory=list)
    """Entries whose data the user did not provide."""
    differences: list[Comparison] = field(default_factory=list)
    """Comparisons of each other policy with the first one, over all entries."""
    not_compared: dict[str, str] = field(default_factory=dict)
    """Maps each policy that cannot be compared to the reason. If the first one is here, `differences` is empty."""

    def success(self, suite: Suite, policy: str) -> float | None:
        """Return a policy's mean success over the entries of a suite; `None` if an entry has no success rate."""
        mine = [pair.summary for pair in self.pairs if pair.suite is suite and pair.policy == policy]
        rates = [summary.success for summary in mine if summary is not None and summary.success is not None]
        return fmean(rates) if rates and len(rates) == len(mine) else None

    @property
    def broken(self) -> bool:
        """Whether a pair could not be played, or one of its episodes failed."""
        return any(pair.summary is None or pair.summary.failed or pair.summary.success is None for pair in self.pairs)

    def under(self, share: float) -> bool:
        """Whether a policy solved less than this share of an entry."""
        return any(pair.summary is not None and (pair.summary.success or 0.0) < share for pair in self.pairs)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        rows = [
            {
                "suite": pair.suite.name,
                "entry": pair.entry.name,
                "policy": pair.policy,
                "summary": None if pair.summary is None else pair.summary.to_dict(),
                "error": pair.error,
            }
            for pair in self.pairs
        ]
        return {
            "results": rows,
            "skipped": [f"{suite.name}: {entry.name}" for suite, entry in self.skipped],
            "differences": [comparison.to_dict() for comparison in self.differences],
            "not_compared": self.not_compared,
        }


def run_suites(request: SuitesRequest) -> SuitesReport:
    """Play every policy on every entry, showing progress on stderr.

    An error in one pair does not stop the others. With `out`, trajectories are written as they finish, and the same
    request resumes an earlier one.

    Raises:
        UsageError: The folder belongs to different suites or settings, or a policy is named twice.
    """
    if len(set(request.policies)) < len(request.policies):
        raise UsageError("a policy is named twice; ask for more attempts instead")
    names = [suite.name for suite in request.suites]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"two suites are called {twice[0]!r}; play each on its own")
    folder = None if request.out is None else ResultsFolder(request.out, request.plan)
    report = SuitesReport(
        request.suites, skipped=[(suite, entry) for suite in request.suites for entry in suite.skipped]
    )
    pairs = [
        EntryRun(suite, entry, policy)
        for suite in request.suites
        for entry in suite.entries
        for policy in request.policies
    ]
    if folder is None:
        _play_all(pairs, request, report, None)
        return report
    try:
        with folder.running():
            _play_all(pairs, request, report, folder)
            _compare(report, folder, request.policies)
    except KeyboardInterrupt:
        terminal(stderr=True).print(f"Finished trajectories are in {request.out}; run the same command to resume.")
        raise
    return report


def _play_all(
    pairs: Sequence[EntryRun], request: SuitesRequest, report: SuitesReport, folder: ResultsFolder | None
) -> None:
    pool = _Policies()
    with progress_bars() as progress:
        for pair in pairs:
            started = time.monotonic()
            played = _play_pair(pair, request, progress, pool, folder)
            _print_result(played, time.monotonic() - started, progress)
            report.pairs.append(played)
            if folder is not None and played.summary is not None:
                folder.add(pair.suite.name, pair.entry.name, pair.policy, played.summary)


def _print_result(pair: EntryRun, seconds: float, progress: Progress) -> None:
    """Print the result of a pair in place of its progress bars."""
    for bar in progress.task_ids:
        progress.remove_task(bar)
    if pair.summary is not None:
        name = plain(f"{pair.entry.name}: {pair.policy}")
        line = Text.assemble(f"{name}: ", _cell(pair), f"  ({_tasks(pair)} tasks, {_duration(seconds)})")
        progress.console.print(line, soft_wrap=True)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _compare(report: SuitesReport, folder: ResultsFolder, policies: Sequence[str]) -> None:
    """Compare the other policies with the first one on the same tasks; record the reason if one cannot be compared."""
    if len(policies) == 1:
        return
    report.not_compared = {policy: why for policy in policies if (why := _why_incomparable(report, policy))}
    first, *others = policies
    if first in report.not_compared:
        return
    base = _run_of(report, folder, first)
    for policy in [other for other in others if other not in report.not_compared]:
        try:
            report.differences.append(compare(base, _run_of(report, folder, policy)))
        except UsageError as error:  # e.g. no common task without failures
            report.not_compared[policy] = str(error)


def _why_incomparable(report: SuitesReport, policy: str) -> str | None:
    """Return why a policy lacks a result on some entry; `None` if it has all."""
    for pair in report.pairs:
        if pair.policy == policy and pair.summary is None:
            return f"{pair.entry.name} could not be played"
        if pair.policy == policy and pair.summary is not None and pair.summary.success is None:
            return f"no episode on {pair.entry.name} came to its end"
    return None


def _run_of(report: SuitesReport, folder: ResultsFolder, policy: str) -> Run:
    """Return the trajectories of a policy in this evaluation as a run."""
    own = [pair for pair in report.pairs if pair.policy == policy]
    names = environment_names([(pair.entry.factory.env_id, pair.entry.name, pair.suite.name) for pair in own])
    files = [folder.file_of(pair.suite.name, pair.entry.name, policy) for pair in own]
    pinned = [suite.id.to_dict() for suite in report.suites if suite.version != UNPINNED]
    suites = canonical(pinned) if pinned else None
    return run_of_recorded(policy, chain.from_iterable(map(recorded_in, files, names)), suites=suites)


def _play_pair(
    pair: EntryRun, request: SuitesRequest, progress: Progress, pool: _Policies, folder: ResultsFolder | None
) -> EntryRun:
    entry = pair.entry
    search = None if request.search is None else read_search(request.search)
    feedback = None if request.feedback is None else read_feedback(request.feedback)
    models = pair.policy, other_model(search, feedback)
    try:
        evaluation = EvaluationRequest(
            env=entry.factory.env_id,
            env_kwargs=dict(entry.factory.kwargs),
            policy=pair.policy,
            tasks=_tasks_of(entry),
            attempts=request.attempts or entry.attempts,
            limit=request.limit,
            seed=request.seed,
            temperature=entry.temperature,
            out=None if folder is None else folder.file_of(pair.suite.name, entry.name, pair.policy),
            limits=replace(entry.limits, max_in_flight=request.concurrency),
            endpoint=request.endpoint if any(is_endpoint(model) for model in models if model) else (),
            workers=request.workers,
            search=search,
            feedback=feedback,
            pinned=True,
            data=tuple(entry.data),
        )
        summary = evaluated(evaluation, progress, load=pool.load, label=f"{entry.name}: {pair.policy}")
    except AgentGymError as error:
        progress.console.print(Text(f"{entry.name}: {pair.policy}: {plain(str(error), 500)}", style="red"))
        return replace(pair, error=str(error))
    return replace(pair, summary=summary)


def _tasks_of(entry: SuiteEntry) -> list[Task]:
    with entry.opened() as env:
        return entry.tasks(env)


class _Policies:
    """A cache of policies: weights are read once, and all entries share the budget of an endpoint."""

    def __init__(self) -> None:
        self._loaded: dict[tuple[str, str], Policy] = {}
        self._first: dict[str, Policy] = {}

    def load(self, name: str, **options: Any) -> Policy:
        """Return a policy; takes the arguments of `load_policy`."""
        key_options = ["dialect", "temperature", "seed", "concurrency", "max_new_tokens"]
        if has_weights(name) and model_of(name) == TINY:  # it is trained separately for each environment
            key_options += ["env_id", "env_kwargs"]
        key = (name, json.dumps([options.get(option) for option in key_options], sort_keys=True))
        if key not in self._loaded:
            policy = self._loaded[key] = load_policy(name, **options)
            pays: Callable[[Policy], None] | None = getattr(policy, "pay_into", None)
            if pays is not None:
                pays(self._first.setdefault(name, policy))
        return self._loaded[key]


def print_report(report: SuitesReport, console: Console) -> None:
    """Print the success of each policy on each entry, and the failures."""
    for suite in report.suites:
        console.print(_table(report, suite))
    if report.differences:
        console.print()
        console.print(differences_table(report.differences))
    for policy, why in report.not_compared.items():
        what = "nothing was compared with" if policy == report.pairs[0].policy else "not compared:"
        console.print(Text(f"{what} {plain(policy)}: {plain(why, 500)}", "yellow"))
    for pair in report.pairs:
        if pair.summary is not None and pair.summary.failed:
            console.print(
                Text(f"{pair.entry.name}: {plain(pair.policy)}: {pair.summary.failed} episode(s) failed", "yellow")
            )
    for suite, entry in report.skipped:
        needed = " ".join(f"--data {name}=PATH" for name in entry.missing)
        console.print(Text(f"{suite.name}: {entry.name} was left out: it needs your own data ({needed})", "dim"))


def _table(report: SuitesReport, suite: Suite) -> Table:
    mine = [pair for pair in report.pairs if pair.suite is suite]
    policies = list(dict.fromkeys(pair.policy for pair in mine))
    table = Table(
        box=None,
        padding=(0, 2, 0, 0),
        header_style="bold",
        title=f"success on {suite.name}" + (f" (version {suite.version})" if suite.version != UNPINNED else ""),
        title_justify="left",
    )
    table.add_column("entry")
    table.add_column("tasks", justify="right")
    for policy in policies:
        table.add_column(Text(plain(policy, 40)), justify="right")
    pairs: Mapping[tuple[str, str], EntryRun] = {(pair.entry.name, pair.policy): pair for pair in mine}
    for entry in suite.entries:
        cells = [_cell(pairs[entry.name, policy]) for policy in policies]
        table.add_row(Text(entry.name), _tasks(pairs[entry.name, policies[0]]), *cells)
    if len(suite.entries) > 1:
        means = [report.success(suite, policy) for policy in policies]
        mean_cells = ["–" if mean is None else f"{100 * mean:.1f} %" for mean in means]
        table.add_row(Text("mean over entries", style="bold"), "", *(Text(mean, style="bold") for mean in mean_cells))
    for name, value_of in _COSTS.items():
        costs = [_mean_cost(mine, policy, value_of) for policy in policies]
        if any(cost is not None for cost in costs):
            row = ["–" if cost is None else f"{cost:.4g}" for cost in costs]
            table.add_row(Text(f"{name} an episode", style="dim"), "", *(Text(cost, style="dim") for cost in row))
    return table


_COSTS: dict[str, Callable[[Summary], float | None]] = {
    "tokens in": lambda summary: summary.input_tokens,
    "tokens out": lambda summary: summary.sampled_tokens,
    "cost": lambda summary: summary.cost,
}


def _mean_cost(pairs: Sequence[EntryRun], policy: str, value_of: Callable[[Summary], float | None]) -> float | None:
    """Return the mean over a policy's entries, as far as it was recorded."""
    summaries = [pair.summary for pair in pairs if pair.policy == policy and pair.summary is not None]
    values = [value for summary in summaries if (value := value_of(summary)) is not None]
    return fmean(values) if values else None


def _tasks(pair: EntryRun) -> str:
    return "–" if pair.summary is None else str(pair.summary.overall.tasks)


def _cell(pair: EntryRun) -> Text:
    if pair.summary is None:
        return Text("not played", style="red")
    rate: Rate = pair.summary.overall
    if rate.success is None or rate.interval is None:
        return Text("failed", style="red")
    interval = f"  {100 * rate.interval.low:.0f}–{100 * rate.interval.high:.0f}"
    return Text.assemble(f"{100 * rate.success:.1f} %", (interval, "dim"))
