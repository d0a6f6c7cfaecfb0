"""`Summary`: a policy's results over a set of trajectories, with confidence intervals, and how to print it.

Failed trajectories (broken infrastructure) say nothing about the model: they are counted but excluded from all rates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from agentgym.endings import Reason
from agentgym.fitness import why_barren
from agentgym.statistics import Interval, mean_of_means, pass_at_k, pass_hat_k, powers_up_to, success_interval
from agentgym.trajectory import Trajectory

if TYPE_CHECKING:
    from rich.console import Console


MAX_TAGS = 10
"""Number of tags to print, hardest first; a summary holds all of them."""


MAX_ERRORS = 5
"""Number of errors to print; a summary holds all of them."""

_ERROR_CHARS = 300


Figures = Callable[[Sequence[Trajectory]], Mapping[str, float]]
"""Computes additional metrics on trajectories."""


@dataclass(frozen=True)
class Rate:
    """How often tasks were solved."""

    success: float | None
    """Mean over tasks of the share of successful attempts; `None` if there was no attempt."""
    interval: Interval | None
    """95 % interval: Wilson's for one attempt per task, else a bootstrap over tasks."""
    tasks: int
    attempts: int


@dataclass(frozen=True)
class Summary:
    """The results of an evaluation."""

    env_id: str
    policy: str
    overall: Rate
    pass_at: dict[int, float]
    """Maps k to the estimated probability that at least one of k attempts solves a task."""
    pass_hat: dict[int, float]
    """Maps k to the estimated probability that all k attempts solve a task."""
    by_difficulty: dict[int, Rate]
    by_tag: dict[str, Rate]
    endings: dict[str, int]
    """Maps the reason to the number of episodes, most frequent first."""
    failed: int
    """Number of failed episodes; of the other numbers, only `endings` and `errors` include them."""
    broken_tasks: dict[str, str]
    """Maps the id of a task that cannot be graded to the reason; only `endings` includes its episodes."""
    reward: float | None
    """Mean reward per episode."""
    turns: float | None
    """Mean number of turns per episode."""
    sampled_tokens: float | None
    """Mean number of sampled tokens per episode; `None` if the policy speaks in messages."""
    tool_error_rate: float | None
    """Share of tool calls that returned an error."""
    format_error_rate: float | None
    """Share of turns without a readable action."""
    seconds_per_episode: float | None
    channels: dict[str, float] = field(default_factory=dict)
    """Mean over episodes of each reward channel's unweighted total."""
    figures: dict[str, float] = field(default_factory=dict)
    """The environment's own metrics (`Env.figures`)."""
    failures: dict[str, int] = field(default_factory=dict)
    """Maps what failed (`Trajectory.component`) to the number of failed episodes, most frequent first."""
    errors: dict[str, int] = field(default_factory=dict)
    """Maps an error to the number of episodes, most frequent first; task ids in it are replaced by `<task>`."""
    seconds: float = 0.0
    """Wall-clock time of this run, without earlier runs that it resumed."""

    @property
    def success(self) -> float | None:
        """Success rate over all tasks."""
        return self.overall.success

    @property
    def interval(self) -> Interval | None:
        """95 % interval of the success rate."""
        return self.overall.interval

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as JSON data."""
        return asdict(self)


def summarize(
    trajectories: Iterable[Trajectory], *, seed: int = 0, seconds: float = 0.0, figures: Figures = lambda _: {}
) -> Summary:
    """Summarise the trajectories of one policy in one environment.

    Args:
        trajectories: All attempts at all tasks, in any order.
        seed: Seeds the bootstrap.
        seconds: Wall-clock time they took.
        figures: Additional metrics, computed on the trajectories that did not fail.
    """
    everything = sorted(trajectories, key=lambda t: (t.task_id, t.attempt))
    valid = [t for t in everything if not t.failed]
    broken = [t for t in everything if t.reason is Reason.BROKEN_TASK]
    failed = [t for t in everything if t.failed and t.reason is not Reason.BROKEN_TASK]
    groups = _by_task(valid)
    first = everything[0] if everything else None
    return Summary(
        env_id=first.env_id if first else "",
        policy=first.policy if first else "",
        overall=_rate(valid, seed),
        pass_at=_over_k(groups, pass_at_k),
        pass_hat=_over_k(groups, pass_hat_k),
        by_difficulty={level: _rate(part, seed) for level, part in _parts(valid, lambda t: [t.difficulty])},
        by_tag={tag: _rate(part, seed) for tag, part in _parts(valid, lambda t: t.tags)},
        endings=dict(Counter(str(t.reason) for t in everything).most_common()),
        failed=len(failed),
        broken_tasks={t.task_id: _shortened(t.error) for t in broken},
        reward=_mean(t.reward for t in valid),
        turns=_mean(len(t.model_turns) for t in valid),
        sampled_tokens=_mean(t.tokens.sampled for t in valid if t.tokens is not None),
        tool_error_rate=_share(_total(valid, "tool_errors"), _total(valid, "calls")),
        format_error_rate=_share(_total(valid, "format_errors"), sum(len(t.model_turns) for t in valid)),
        seconds_per_episode=_mean(t.seconds for t in valid),
        channels=_channels(valid),
        figures=dict(figures(valid)),
        failures=dict(Counter(t.component or "unknown" for t in failed).most_common()),
        errors=dict(Counter(map(_error_of, failed)).most_common()),
        seconds=seconds,
    )


def print_summary(summary: Summary, console: Console | None = None) -> None:
    """Print a summary as tables."""
    from rich.console import Console, Group
    from rich.panel import Panel
    from rich.text import Text

    console = console or Console()
    overall = summary.overall
    title = Text.assemble((summary.policy, "bold"), " on ", (summary.env_id, "bold"))
    if overall.success is None:
        broken = f", {len(summary.broken_tasks)} task(s) are broken" if summary.broken_tasks else ""
        failed = f"{summary.failed} failed" + (f" ({counted(summary.failures)})" if summary.failures else "")
        body = Text(f"no episode came to its end; {failed}{broken}", style="bold red")
        console.print(Panel(body, title=title, title_align="left", expand=False))
        print_errors(summary, console)
        _print_broken_tasks(summary, console)
        return
    tables = [_rates_table(summary), Text(), _measures_table(summary)]
    console.print(Panel(Group(*tables), title=title, title_align="left", expand=False, padding=(1, 2)))
    if (why := why_barren(summary.sampled_tokens, summary.format_error_rate)) is not None:
        console.print(f"[bold red]This says nothing about the model:[/] {why}.")
    if summary.failed:
        console.print(
            f"[bold yellow]{summary.failed} episode(s) failed[/] because something around the model broke "
            f"({counted(summary.failures)}); they are not counted. Run the same command again to retry them."
        )
        print_errors(summary, console)
    _print_broken_tasks(summary, console)


def _print_broken_tasks(summary: Summary, console: Console) -> None:
    """Print the tasks that could not be graded, with the reasons."""
    from rich.text import Text

    from agentgym.commands.show import plain

    broken = summary.broken_tasks
    if not broken:
        return
    console.print(
        f"[bold yellow]{len(broken)} task(s) are broken[/] and left out of all numbers; --strict stops at the first:"
    )
    for task_id, reason in list(broken.items())[:MAX_ERRORS]:
        console.print(Text(f"  {plain(task_id)}: {plain(reason)}", style="red"))
    if (more := len(broken) - MAX_ERRORS) > 0:
        console.print(Text(f"  … and {more} more; --json lists all", style="dim"))


def counted(failures: Mapping[str, int]) -> str:
    """Return failures by what failed as text, in order."""
    return ", ".join(f"{component}: {count}" for component, count in failures.items())


def print_errors(summary: Summary, console: Console) -> None:
    """Print the errors, most frequent first."""
    from rich.text import Text

    from agentgym.commands.show import plain

    for error, count in list(summary.errors.items())[:MAX_ERRORS]:
        console.print(Text(f"  {count} × {plain(error)}", style="red"))
    if (more := len(summary.errors) - MAX_ERRORS) > 0:
        console.print(Text(f"  … and {more} other errors", style="dim"))


def _rates_table(summary: Summary) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("", "success", "95 % interval", "tasks", "attempts"):
        table.add_column(name, justify="left" if not name else "right")
    rows = [(Text("all", style="bold"), summary.overall)]
    rows += [(Text(f"difficulty {level}"), rate) for level, rate in summary.by_difficulty.items()]
    hardest = sorted(summary.by_tag.items(), key=lambda item: (item[1].success, -item[1].tasks))
    rows += [(Text(tag, style="cyan"), rate) for tag, rate in hardest[:MAX_TAGS]]
    for name, rate in rows:
        interval = "" if rate.interval is None else f"{_percent(rate.interval.low)} – {_percent(rate.interval.high)}"
        table.add_row(name, _percent(rate.success), interval, str(rate.tasks), str(rate.attempts))
    if (more := len(hardest) - MAX_TAGS) > 0:
        table.add_row(Text(f"… {more} more tags, none of them harder", style="dim"))
    return table


def _measures_table(summary: Summary) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column()
    if len(summary.pass_at) > 1:
        table.add_row("pass@k", _list_k(summary.pass_at, "@"))
        table.add_row("pass^k", _list_k(summary.pass_hat, "^"))
    table.add_row("reward", _number(summary.reward, 3))
    table.add_row("turns", _number(summary.turns, 1))
    if summary.sampled_tokens is not None:
        table.add_row("sampled tokens", _number(summary.sampled_tokens, 1))
    if summary.tool_error_rate is not None:
        table.add_row("tool errors", f"{_percent(summary.tool_error_rate)} of calls")
    table.add_row("format errors", f"{_percent(summary.format_error_rate)} of turns")
    table.add_row("channels", Text("  ".join(f"{name} {value:.2f}" for name, value in summary.channels.items())))
    for name, value in summary.figures.items():
        table.add_row(name, _number(value, 3))
    table.add_row("endings", Text("  ".join(f"{reason} {count}" for reason, count in summary.endings.items())))
    table.add_row("time", f"{summary.seconds:.1f} s; {_number(summary.seconds_per_episode, 2)} s an episode")
    return table


def _by_task(trajectories: Iterable[Trajectory]) -> list[list[bool]]:
    """Return the results of each task."""
    groups: dict[str, list[bool]] = {}
    for trajectory in trajectories:
        groups.setdefault(trajectory.task_id, []).append(trajectory.success)
    return list(groups.values())


def _rate(trajectories: Sequence[Trajectory], seed: int) -> Rate:
    groups = _by_task(trajectories)
    if not groups:
        return Rate(None, None, 0, 0)
    return Rate(mean_of_means(groups), success_interval(groups, seed), len(groups), len(trajectories))


def _over_k(groups: Sequence[Sequence[bool]], estimate: Callable[[int, int, int], float]) -> dict[int, float]:
    """Return, for each k, the mean of an estimate over the tasks with enough attempts."""
    most = max(map(len, groups), default=0)
    return {
        k: fmean(estimate(len(group), sum(group), k) for group in groups if len(group) >= k)
        for k in (powers_up_to(most) if most else ())
    }


def _parts(
    trajectories: Sequence[Trajectory], keys: Callable[[Trajectory], Iterable[Any]]
) -> list[tuple[Any, list[Trajectory]]]:
    parts: dict[Any, list[Trajectory]] = {}
    for trajectory in trajectories:
        for key in keys(trajectory):
            parts.setdefault(key, []).append(trajectory)
    return sorted(parts.items())


def _error_of(trajectory: Trajectory) -> str:
    """Return the error on one line, without the task's id, so that equal errors group together."""
    text = trajectory.error
    return _shortened(text.replace(trajectory.task_id, "<task>") if text and trajectory.task_id else text)


def _shortened(error: str | None) -> str:
    """Return an error on one line."""
    text = " ".join((error or "no reason was recorded").split())
    return text if len(text) <= _ERROR_CHARS else f"{text[:_ERROR_CHARS]}…"


def _total(trajectories: Iterable[Trajectory], count: str) -> int:
    return sum(t.counts.get(count, 0) for t in trajectories)


def _channels(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    names = dict.fromkeys(name for t in trajectories for turn in t.turns for name in turn.rewards)
    return {name: fmean(sum(turn.rewards.get(name, 0.0) for turn in t.turns) for t in trajectories) for name in names}


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return fmean(found) if found else None


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _list_k(values: Mapping[int, float], sign: str) -> str:
    return "  ".join(f"{sign}{k} {_percent(value)}" for k, value in values.items())
