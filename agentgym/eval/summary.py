"""Prints a `Summary` as tables: success by difficulty and tag, then cost and endings of the episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING, Any

from agentgym.base.choices import count_of
from agentgym.core.endings import Reason
from agentgym.core.trajectory import Trajectory
from agentgym.eval.measures import Measures, measure
from agentgym.eval.results.entry import Entry, entry_of
from agentgym.eval.statistics import Interval, mean_of_means, pass_at_k, pass_hat_k, powers_up_to, success_interval
from agentgym.rollout.fitness import why_barren

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.measure import Measurement


_ERROR_CHARS = 300

Figures = Callable[[Sequence[Trajectory]], Mapping[str, float]]
"""Computes additional metrics on trajectories."""


@dataclass(frozen=True)
class Rate:
    """The success rate over tasks."""

    success: float | None
    """Mean over tasks of the share of successful attempts; `None` without attempts."""
    interval: Interval | None
    """95 % interval (`statistics.success_interval`)."""
    tasks: int
    attempts: int


@dataclass(frozen=True, kw_only=True)
class Summary(Measures):
    """The results of an evaluation."""

    env_id: str
    policy: str
    overall: Rate
    pass_at: dict[int, float]
    """Maps k to the estimated probability that at least one of k attempts solves a task."""
    pass_hat: dict[int, float]
    """Maps k to the estimated probability that all k attempts solve a task."""
    by_turns: dict[int, float]
    """Maps a number of turns to the success rate within it (the curve of MINT)."""
    by_difficulty: dict[int, Rate]
    by_tag: dict[str, Rate]
    measures_by_difficulty: dict[int, Measures]
    measures_by_tag: dict[str, Measures]
    endings: dict[str, int]
    """Maps the reason to the number of episodes, most frequent first."""
    failed: int
    """Number of failed episodes; of the other numbers, only `endings` and `errors` include them."""
    broken_tasks: dict[str, str]
    """Maps the id of a task that cannot be graded to the reason; only `endings` includes its episodes."""
    channels: dict[str, float] = field(default_factory=dict)
    """Mean over episodes of each reward channel's unweighted total."""
    figures: dict[str, float] = field(default_factory=dict)
    """The environment's own metrics (`Env.figures`)."""
    failures: dict[str, int] = field(default_factory=dict)
    """Maps a component (`Trajectory.component`) to the number of episodes that failed in it, most frequent first."""
    errors: dict[str, int] = field(default_factory=dict)
    """Maps an error to the number of episodes, most frequent first; task ids in it are replaced by `<task>`."""
    seconds: float = 0.0
    """Wall-clock time of this run, without the runs that it resumed."""

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


def summarize(trajectories: Iterable[Trajectory], *, seconds: float = 0.0, figures: Figures = lambda _: {}) -> Summary:
    """Summarise the trajectories of one policy in one environment.

    Args:
        trajectories: All attempts at all tasks, in any order.
        seconds: Wall-clock time of the run.
        figures: Computes additional metrics on the trajectories that did not fail.
    """
    everything = sorted(trajectories, key=_order)
    valid = [t for t in everything if not t.failed]
    return summarize_entries(map(entry_of, everything), seconds=seconds, figures=figures(valid))


def summarize_entries(
    entries: Iterable[Entry], *, seconds: float = 0.0, figures: Mapping[str, float] | None = None
) -> Summary:
    """Summarise trajectories from their entries, which fit into memory even for hundreds of thousands.

    Args:
        entries: All attempts at all tasks, in any order.
        seconds: Wall-clock time of the run.
        figures: The environment's own metrics.
    """
    everything = sorted(entries, key=_order)
    valid = [t for t in everything if not t.failed]
    broken = [t for t in everything if t.reason == Reason.BROKEN_TASK]
    failed = [t for t in everything if t.failed and t.reason != Reason.BROKEN_TASK]
    groups = _by_task(valid)
    levels, tags = _parts(valid, lambda t: [t.difficulty]), _parts(valid, lambda t: t.tags)
    first = everything[0] if everything else None
    return Summary(
        env_id=first.env_id if first else "",
        policy=first.policy if first else "",
        overall=_rate(valid),
        pass_at=_over_k(groups, pass_at_k),
        pass_hat=_over_k(groups, pass_hat_k),
        by_turns=_within_turns(valid),
        by_difficulty={level: _rate(part) for level, part in levels},
        by_tag={tag: _rate(part) for tag, part in tags},
        measures_by_difficulty={level: measure(part) for level, part in levels},
        measures_by_tag={tag: measure(part) for tag, part in tags},
        endings=dict(Counter(str(t.reason) for t in everything).most_common()),
        failed=len(failed),
        broken_tasks={t.task_id: _shortened(t.error) for t in broken},
        **vars(measure(valid)),
        channels=_channels(valid),
        figures=dict(figures or {}),
        failures=dict(Counter(t.component or "unknown" for t in failed).most_common()),
        errors=dict(Counter(map(_error_of, failed)).most_common()),
        seconds=seconds,
    )


def _by_task(entries: Iterable[Entry]) -> list[list[bool]]:
    """Return the results of each task."""
    groups: dict[str, list[bool]] = {}
    for entry in entries:
        groups.setdefault(entry.task_id, []).append(entry.success)
    return list(groups.values())


def _rate(entries: Sequence[Entry]) -> Rate:
    groups = _by_task(entries)
    if not groups:
        return Rate(None, None, 0, 0)
    return Rate(mean_of_means(groups), success_interval(groups), len(groups), len(entries))


def _over_k(groups: Sequence[Sequence[bool]], estimate: Callable[[int, int, int], float]) -> dict[int, float]:
    """Return, for each k, the mean of an estimate over the tasks with enough attempts."""
    most = max(map(len, groups), default=0)
    return {
        k: fmean(estimate(len(group), sum(group), k) for group in groups if len(group) >= k)
        for k in (powers_up_to(most) if most else ())
    }


def _within_turns(entries: Sequence[Entry]) -> dict[int, float]:
    """Return the success rate within each number of turns, up to the most turns of a successful attempt."""
    needed: dict[str, list[float]] = {}
    for t in entries:
        needed.setdefault(t.task_id, []).append(t.turns if t.success else inf)
    most = max((turns for group in needed.values() for turns in group if turns < inf), default=0)
    return {
        limit: mean_of_means([[turns <= limit for turns in group] for group in needed.values()])
        for limit in range(1, int(most) + 1)
    }


def _parts(entries: Sequence[Entry], keys: Callable[[Entry], Iterable[Any]]) -> list[tuple[Any, list[Entry]]]:
    parts: dict[Any, list[Entry]] = {}
    for entry in entries:
        for key in keys(entry):
            parts.setdefault(key, []).append(entry)
    return sorted(parts.items())


def _error_of(entry: Entry) -> str:
    """Return the error on one line, without the task's id, so that equal errors can be counted."""
    text = entry.error
    return _shortened(text.replace(entry.task_id, "<task>") if text and entry.task_id else text)


def _shortened(error: str | None) -> str:
    """Return an error on one line."""
    text = " ".join((error or "no reason was recorded").split())
    return text if len(text) <= _ERROR_CHARS else f"{text[:_ERROR_CHARS]}…"


def _channels(entries: Sequence[Entry]) -> dict[str, float]:
    names = dict.fromkeys(name for t in entries for name in t.channels)
    return {name: fmean(t.channels.get(name, 0.0) for t in entries) for name in names}


def _order(result: Trajectory | Entry) -> tuple[str, int]:
    """Return a sort key that does not depend on which episode ended first."""
    return result.task_id, result.attempt


MAX_TAGS = 10
"""Number of tags to print, hardest first; a summary holds all of them."""

MIN_GROUP_TASKS = 5
"""Fewest tasks of a printed level or tag: fewer say nothing."""

MAX_ERRORS = 5
"""Number of errors to print; a summary holds all of them."""

WIDE = 110
"""Least width of a console for the table of rates to include reward, turns, calls and errors."""

WIDEST = 145
"""Least width of a console for the table of rates to include tokens and cost too."""

_FEEDBACK = {"feedback": "comments an episode", "feedback_withheld": "withheld, because they revealed the gold"}

_MAX_POINTS = 8
"""Number of points of a curve to print; a summary holds all of them."""


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
        body = Text(f"no episode finished; {failed}{broken}", style="bold red")
        console.print(Panel(body, title=title, title_align="left", expand=False))
        print_errors(summary, console)
        _print_broken_tasks(summary, console)
        return
    tables = [_rates_table(summary, console.width), Text(), _measures_table(summary)]
    console.print(Panel(Group(*tables), title=title, title_align="left", expand=False, padding=(1, 2)))
    if (why := why_barren(summary.sampled_tokens, summary.format_error_rate)) is not None:
        console.print(f"[bold red]This says nothing about the model:[/] {why}.")
    if summary.search.get("oracle"):
        bound = "an upper bound of the search, not a result of the policy"
        console.print(f"[bold yellow]The search chose by the reward itself[/]: {bound}.")
    if summary.failed:
        console.print(
            f"[bold yellow]{summary.failed} episode(s) failed[/] because of something around the model "
            f"({counted(summary.failures)}); they are not counted. Run the same command again to retry them."
        )
        print_errors(summary, console)
    _print_broken_tasks(summary, console)


def _print_broken_tasks(summary: Summary, console: Console) -> None:
    """Print the tasks that could not be graded, with the reasons."""
    from rich.text import Text

    from agentgym.core.display import plain

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
    """Return the number of failures by component as text."""
    return ", ".join(f"{component}: {count}" for component, count in failures.items())


def print_errors(summary: Summary, console: Console) -> None:
    """Print the errors, most frequent first."""
    from rich.text import Text

    from agentgym.core.display import plain

    for error, count in list(summary.errors.items())[:MAX_ERRORS]:
        console.print(Text(f"  {count} × {plain(error)}", style="red"))
    if (more := len(summary.errors) - MAX_ERRORS) > 0:
        console.print(Text(f"  … and {more} other errors", style="dim"))


def _rates_table(summary: Summary, width: int) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    columns = ["", "success", "95 % interval", "tasks", "attempts"]
    shown = [name for name in _MEASURES if name not in _TOKENS or (width >= WIDEST and _MEASURES[name](summary) != "–")]
    columns += shown if width >= WIDE else []
    for name in columns:
        table.add_column(name, justify="right" if name else "left", no_wrap=bool(name))

    overall = summary.overall

    def add(name: Text, rate: Rate, measures: Measures) -> None:
        interval = "" if rate.interval is None else f"{percent(rate.interval.low)} – {percent(rate.interval.high)}"
        cells = [percent(rate.success), interval, str(rate.tasks), str(rate.attempts)]
        table.add_row(name, *cells, *(_MEASURES[name](measures) for name in columns[len(cells) + 1 :]))

    add(Text("all", style="bold"), overall, summary)
    for level, rate in summary.by_difficulty.items():
        if rate.tasks < MIN_GROUP_TASKS:
            continue
        add(Text(f"difficulty {level}"), rate, summary.measures_by_difficulty[level])
    large_enough = [
        (tag, rate) for tag, rate in summary.by_tag.items() if MIN_GROUP_TASKS <= rate.tasks < overall.tasks
    ]
    hardest = sorted(large_enough, key=lambda item: (item[1].success, -item[1].tasks))
    for tag, rate in hardest[:MAX_TAGS]:
        add(Text(tag, style="cyan"), rate, summary.measures_by_tag[tag])
    if more := len(summary.by_tag) - len(hardest[:MAX_TAGS]):
        table.add_row(Text(f"… {count_of(more, 'more tag')} (--json)", style="dim"))
    return table


_MEASURES: dict[str, Callable[[Measures], str]] = {
    "reward": lambda m: number(m.reward, 3),
    "turns": lambda m: number(m.turns, 1),
    "calls": lambda m: number(m.calls, 1),
    "tool errors": lambda m: percent(m.tool_error_rate),
    "tokens in": lambda m: number(m.input_tokens, 0),
    "tokens out": lambda m: number(m.sampled_tokens, 0),
    "cost": lambda m: "–" if m.cost is None else f"{m.cost:.3g}",
    "median time": lambda m: seconds(m.seconds_median),
}
"""The columns of a wide table of rates."""
_TOKENS = ("tokens in", "tokens out", "cost")


def _measures_table(summary: Summary) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, value in (*_attempts_rows(summary), *_cost_rows(summary)):
        table.add_row(name, Text(value) if isinstance(value, str) else _Items(value))
    return table


class _Items:
    """Items side by side. Lines break between items, never within one."""

    def __init__(self, items: Iterable[str]):
        self._items = list(items)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        lines = [""]
        for item in self._items:
            longer = f"{lines[-1]}  {item}" if lines[-1] else item
            if len(longer) <= options.max_width:
                lines[-1] = longer
            else:
                lines.append(item)
        yield Text("\n".join(lines))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        from rich.measure import Measurement

        lengths = [len(item) for item in self._items] or [0]
        return Measurement(max(lengths), sum(lengths) + 2 * (len(lengths) - 1))


def _attempts_rows(summary: Summary) -> Iterable[tuple[str, str | list[str]]]:
    """Yield the rows on results."""
    if len(summary.pass_at) > 1:
        yield "pass@k", _list_k(summary.pass_at, "@")
        yield "pass^k", _list_k(summary.pass_hat, "^")
    yield "reward", number(summary.reward, 3)
    yield "channels", [f"{name} {value:.2f}" for name, value in summary.channels.items()]
    for name, value in summary.figures.items():
        yield name, number(value, 3)
    yield "endings", [f"{reason} {count}" for reason, count in summary.endings.items()]


def _cost_rows(summary: Summary) -> Iterable[tuple[str, str | list[str]]]:
    """Yield the rows on cost and errors."""
    yield "turns", number(summary.turns, 1)
    if len(summary.by_turns) > 1:
        yield "solved within", [f"{t}: {percent(summary.by_turns[t])}" for t in _points(list(summary.by_turns))]
    counts = {"in": summary.input_tokens, "out": summary.sampled_tokens, "read once": summary.observed_tokens}
    if tokens := [f"{name} {value:.1f}" for name, value in counts.items() if value is not None]:
        yield "tokens", tokens
    if summary.calls:
        yield "tool calls", number(summary.calls, 1)
    if summary.tool_error_rate is not None:
        yield "tool errors", f"{percent(summary.tool_error_rate)} of calls{_by_kind(summary.tool_errors)}"
    yield "format errors", f"{percent(summary.format_error_rate)} of turns{_by_kind(summary.format_errors)}"
    if summary.near_misses:
        yield "near misses", [_near_miss(kind, share) for kind, share in summary.near_misses.items()]
    if summary.cut_turn_rate:
        yield "cut turns", f"{percent(summary.cut_turn_rate)} of turns reached a limit of tokens or time"
    if summary.feedback:
        yield "feedback", [f"{number(value, 1)} {_FEEDBACK[name]}" for name, value in summary.feedback.items()]
    if summary.cost is not None:
        yield "cost", f"{summary.cost:.4g} an episode"
    if summary.search:
        yield "whole search", [_search_item(name, value) for name, value in summary.search.items() if name != "oracle"]
    mean = f"{number(summary.seconds_per_episode, 2)} s an episode"
    spread = f"median {seconds(summary.seconds_median)}, 95 % within {seconds(summary.seconds_p95)}"
    yield "time", f"{summary.seconds:.1f} s; {mean}, {spread}"
    if summary.generation_seconds is not None and summary.environment_seconds is not None:
        yield "time in turns", _time_in_turns(summary.generation_seconds, summary.environment_seconds)


def _time_in_turns(generation: float, environment: float) -> list[str]:
    """Return how long turns waited for the policy and the environment, in seconds per episode and as shares."""
    both = generation + environment
    parts = {"generation": generation, "environment": environment}
    return [f"{name} {value:.2f} s ({percent(value / both if both else None)})" for name, value in parts.items()]


def _search_item(name: str, value: float) -> str:
    return f"{name.replace('_', ' ')} {f'{value:.4g}' if name == 'cost' else number(value, 1)}"


def _by_kind(shares: Mapping[str, float]) -> str:
    parts = [f"{kind.replace('_', ' ')} {percent(share)}" for kind, share in shares.items()]
    return f": {', '.join(parts)}" if parts else ""


def _near_miss(kind: str, share: float) -> str:
    """Return a kind of near miss with its share of turns, and what would read such calls."""
    from agentgym.core.dialects.near_misses import FORMS

    dialect = FORMS[kind].dialect if kind in FORMS else ""
    how = f"--dialect {dialect} reads them" if dialect else "--lenient runs them"
    return f"{kind.replace('_', ' ')} {percent(share)} of turns ({how})"


def _points(limits: Sequence[int]) -> list[int]:
    """Return a few numbers of turns, evenly spaced from the first to the last."""
    last = len(limits) - 1
    count = min(_MAX_POINTS, len(limits))
    return [limits[round(index * last / max(1, count - 1))] for index in range(count)]


def percent(value: float | None) -> str:
    """Return a share in percent, or a dash for `None`."""
    return "–" if value is None else f"{100 * value:.1f} %"


def number(value: float | None, digits: int) -> str:
    """Return a number with `digits` digits after the point, or a dash for `None`."""
    return "–" if value is None else f"{value:.{digits}f}"


def seconds(value: float | None) -> str:
    """Return a duration with two digits after the point, or a dash for `None`."""
    return "–" if value is None else f"{value:.2f} s"


def _list_k(values: Mapping[int, float], sign: str) -> list[str]:
    return [f"{sign}{k} {percent(value)}" for k, value in values.items()]
