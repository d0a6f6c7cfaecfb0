"""Prints comparisons as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agentgym.base.choices import count_of
from agentgym.base.errors import UsageError
from agentgym.core.display import plain
from agentgym.eval.comparison.pairs import Comparison, MeasureChange, PartResult, Side
from agentgym.eval.comparison.runs import Attempt, Run, TaskKey, check_comparable
from agentgym.eval.statistics import (
    Interval,
    bootstrap_over_seeds,
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
)
from agentgym.eval.summary import MAX_TAGS, MIN_GROUP_TASKS, WIDE, percent

_THRESHOLDS = 10


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval."""

    value: float
    interval: Interval
    """Bootstrap over whole runs and tasks."""


@dataclass(frozen=True)
class Profile:
    """Share of scores (over runs and tasks) above each threshold."""

    thresholds: list[float]
    a: list[float]
    b: list[float]


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of both methods' scores."""

    a: Estimate
    b: Estimate
    difference: Estimate
    """`b - a`."""


@dataclass(frozen=True)
class ScoreComparison:
    """How the scores of two methods differ. A score is the mean over a run's attempts at a task."""

    mean: Aggregate
    interquartile_mean: Aggregate
    """Mean of the middle half of all scores."""
    probability_of_improvement: Estimate
    """Probability that a run of B scores higher than a run of A on a random task."""
    profile: Profile


@dataclass(frozen=True)
class SeedsComparison:
    """How the runs of method B differ from those of method A."""

    a: list[str]
    """Names of the runs."""
    b: list[str]
    tasks: int
    """Tasks with a valid attempt in every run; only these are compared."""
    left_out: int
    """Tasks missing in some run."""
    failed: int
    """Tasks of all runs that are left out because all attempts of some run failed."""
    success: ScoreComparison
    reward: ScoreComparison

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON data."""
        return asdict(self)


def compare_seeds(a: Sequence[Run], b: Sequence[Run], *, seed: int = 0) -> SeedsComparison:
    """Compare the runs of method B with those of method A.

    Args:
        a: The runs of one method, such as one per seed of its training.
        b: The runs of the other method.
        seed: Seed of the bootstrap.

    Raises:
        UsageError: A side is empty, the tasks of the runs differ, or no task has a valid attempt in every run.
    """
    if not a or not b:
        raise UsageError("each side needs at least one run")
    runs = [*a, *b]
    for run in runs[1:]:
        check_comparable(runs[0], run)
    keys = {key for run in runs for key in run.tasks}
    every = [key for key in runs[0].tasks if all(key in run.tasks for run in runs)]
    valid = [key for key in every if all(run.valid(key) for run in runs)]
    if not valid:
        raise UsageError(f"no task has an episode that did not fail in each of the {len(runs)} runs")
    return SeedsComparison(
        a=[run.name for run in a],
        b=[run.name for run in b],
        tasks=len(valid),
        left_out=len(keys) - len(every),
        failed=len(every) - len(valid),
        success=_compared(a, b, valid, lambda attempt: float(attempt.success), seed),
        reward=_compared(a, b, valid, lambda attempt: attempt.measures["reward"], seed),
    )


def _scores(runs: Sequence[Run], tasks: Sequence[TaskKey], of: Callable[[Attempt], float]) -> np.ndarray:
    """Return one row per run and one column per task."""
    return np.array([[fmean(map(of, run.valid(key))) for key in tasks] for run in runs])


_Statistic = Callable[[np.ndarray, np.ndarray], float]


def _compared(
    runs_a: Sequence[Run], runs_b: Sequence[Run], tasks: Sequence[TaskKey], of: Callable[[Attempt], float], seed: int
) -> ScoreComparison:
    a, b = _scores(runs_a, tasks, of), _scores(runs_b, tasks, of)
    statistics: dict[str, _Statistic] = {
        **_statistics_of("mean", lambda scores: float(scores.mean())),
        **_statistics_of("middle", interquartile_mean),
        "improvement": lambda a, b: probability_of_improvement(b, a),
    }
    intervals = bootstrap_over_seeds(statistics, [a, b], seed)
    estimates = {name: Estimate(statistic(a, b), intervals[name]) for name, statistic in statistics.items()}

    def aggregate(name: str) -> Aggregate:
        return Aggregate(*(estimates[f"{name} {what}"] for what in ("a", "b", "difference")))

    return ScoreComparison(aggregate("mean"), aggregate("middle"), estimates["improvement"], _profile(a, b))


def _statistics_of(name: str, of: Callable[[np.ndarray], float]) -> dict[str, _Statistic]:
    return {
        f"{name} a": lambda a, b: of(a),
        f"{name} b": lambda a, b: of(b),
        f"{name} difference": lambda a, b: of(b) - of(a),
    }


def _profile(a: np.ndarray, b: np.ndarray) -> Profile:
    """Return the profiles over thresholds from the lowest score to the highest."""
    low, high = min(a.min(), b.min()), max(a.max(), b.max())
    thresholds = np.linspace(low, high, _THRESHOLDS + 1).tolist()
    return Profile(thresholds, performance_profile(a, thresholds), performance_profile(b, thresholds))


_MAX_TASKS = 1_000
"""Number of tasks to print; --json has all of them."""

_MAX_PATH = 32
"""Number of characters of a file's path to print."""


def print_comparison(comparison: Comparison, console: Console, *, flips: bool = False) -> None:
    """Print how run B differs from run A.

    Args:
        comparison: The comparison.
        console: The console to print to.
        flips: Whether to list each task won or lost.
    """
    body: list[Any] = [
        _sides(comparison),
        Text(),
        _parts_table(comparison),
        Text(),
        _verdict(comparison),
        Text(),
        _measures(comparison),
    ]
    console.print(Panel(Group(*body), title="B compared with A", title_align="left", expand=False, padding=(1, 2)))
    for note in _notes(comparison):
        console.print(Text(note, style="bold yellow"))
    if flips:
        _print_tasks(comparison, console)


def print_seeds(comparison: SeedsComparison, console: Console) -> None:
    """Print how the runs of method B differ from those of method A."""
    runs = f"A: {len(comparison.a)} run(s), B: {len(comparison.b)} run(s), {comparison.tasks} tasks in all of them"
    scores = {"success": comparison.success, "reward": comparison.reward}
    body: list[Any] = [Text(runs), Text(), _scores_table(comparison, console.width >= WIDE), Text()]
    body += [_improvement(name, score.probability_of_improvement) for name, score in scores.items()]
    body += [Text(), Text("Share of scores, over runs and tasks, above:", style="dim")]
    body += [_profile_table(name, score.profile) for name, score in scores.items()]
    console.print(Panel(Group(*body), title="B compared with A", title_align="left", expand=False, padding=(1, 2)))
    if min(len(comparison.a), len(comparison.b)) < 3:
        console.print(Text("Fewer than 3 runs on a side say little about other seeds.", style="bold yellow"))
    if comparison.left_out or comparison.failed:
        left_out = (
            f"{comparison.left_out} task(s) that only some runs have, and {comparison.failed} with failed episodes only"
        )
        console.print(Text(f"Left out: {left_out} in some run.", style="bold yellow"))


def differences_table(comparisons: Sequence[Comparison]) -> Table:
    """Return a table of how policies differ from the first one in success, over the tasks of both."""
    first = comparisons[0].a.policy
    table = _table(f"compared with {first}", "difference", "95 % interval", "won", "lost", "tied", "p", left_aligned=1)
    for comparison in comparisons:
        part = comparison.overall
        p = "–" if comparison.p_value is None else f"{comparison.p_value:.2g}"
        difference = _colored(f"{100 * part.success.difference:+.1f}", part.success.interval)
        counts = (part.won, part.lost, part.tied)
        table.add_row(_name(comparison.b.policy), difference, _points(part.success.interval), *map(str, counts), p)
    return table


def _sides(comparison: Comparison) -> Table:
    table = _table("", "policy", "file", "tasks", "episodes", "failed", left_aligned=3)
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        cells = _name(side.policy), _name(_end_of(side.name))
        table.add_row(Text(letter, style="bold"), *cells, str(side.tasks), str(side.attempts), str(side.failed))
    for name, (before, after) in comparison.arguments.items():
        table.add_row("", _name(f"{name}: {before} and {after}", "dim"))
    return table


def _parts_table(comparison: Comparison) -> Table:
    table = _table("success", "A %", "B %", "B − A", "95 % interval", "won", "lost", "tied", left_aligned=1)
    _add_part(table, _name("all", "bold"), comparison.overall)
    if len(comparison.by_environment) > 1:
        for env_id, part in comparison.by_environment.items():
            _add_part(table, _name(env_id, "bold"), part)
    for level, part in comparison.by_difficulty.items():
        _add_part(table, _name(f"difficulty {level}"), part)
    large_enough = [(tag, part) for tag, part in comparison.by_tag.items() if part.success.tasks >= MIN_GROUP_TASKS]
    by_size = sorted(large_enough, key=lambda item: -abs(item[1].success.difference))
    for tag, part in by_size[:MAX_TAGS]:
        _add_part(table, _name(tag, "cyan"), part)
    if more := len(comparison.by_tag) - len(by_size[:MAX_TAGS]):
        table.add_row(_name(f"… {count_of(more, 'more tag')} (--json)", "dim"))
    return table


def _add_part(table: Table, name: Text, part: PartResult) -> None:
    change, counts = part.success, (part.won, part.lost, part.tied)
    difference = _colored(f"{100 * change.difference:+.1f}", change.interval)
    shares = f"{100 * change.a:.1f}", f"{100 * change.b:.1f}"
    table.add_row(name, *shares, difference, _points(change.interval), *map(str, counts))


def _verdict(comparison: Comparison) -> Text:
    low, high = comparison.overall.success.interval
    if low > 0:
        text = "B solves more: the interval of the difference is above 0."
    elif high < 0:
        text = "B solves less: the interval of the difference is below 0."
    else:
        text = "No difference is shown: its interval contains 0."
    if comparison.p_value is not None:
        won, lost = comparison.overall.won, comparison.overall.lost
        text += f" Exact sign test of {won} won and {lost} lost: p = {comparison.p_value:.2g}."
    return Text(text, style="bold")


def _measures(comparison: Comparison) -> Table:
    table = _table("per episode", "A", "B", "B − A", "95 % interval", left_aligned=1)
    for name, change in comparison.measures.items():
        of = "" if change.tasks == comparison.overall.success.tasks else f" ({change.tasks} tasks)"
        digits = _digits(change)
        means = f"{change.a:.{digits}f}", f"{change.b:.{digits}f}"
        interval = f"{change.interval.low:+.{digits}f} to {change.interval.high:+.{digits}f}"
        table.add_row(_name(name + of), *means, f"{change.difference:+.{digits}f}", interval)
    return table


def _digits(change: MeasureChange) -> int:
    largest = max(abs(change.a), abs(change.b))
    return 1 if largest >= 100 else 2 if largest >= 10 else 3 if largest >= 0.1 or not largest else 6


def _notes(comparison: Comparison) -> Iterable[str]:
    """Yield notes on tasks and episodes that were left out."""
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        if side.only_here:
            yield f"{side.only_here} task(s) are only in {letter} and were not compared."
        if note := _about_failures(side):
            yield f"{letter}: {note}"


def _about_failures(side: Side) -> str:
    if not side.failed:
        return ""
    note = f"{side.failed} episode(s) failed because of something around the model; they do not count as wrong."
    return f"{note} {side.all_failed} task(s) have no other and were not compared." if side.all_failed else note


def _print_tasks(comparison: Comparison, console: Console) -> None:
    """List the tasks that were won and lost, and count the others."""
    table = _table("task", "difficulty", "A", "B", "B has", left_aligned=1)
    decided = sorted(
        (task for task in comparison.tasks if task.verdict != "tied"), key=lambda task: (task.verdict, task.task_id)
    )
    for task in decided[:_MAX_TASKS]:
        verdict = Text(task.verdict, style="green" if task.verdict == "won" else "red")
        table.add_row(_name(task.task_id), str(task.difficulty), percent(task.a), percent(task.b), verdict)
    console.print(table)
    rest = f"{comparison.overall.tied} task(s) are tied"
    if (more := len(decided) - _MAX_TASKS) > 0:
        rest = f"… and {more} more won or lost; {rest}"
    console.print(Text(f"{rest}; --json lists all.", style="dim"))


def _scores_table(comparison: SeedsComparison, wide: bool) -> Table:
    sides = [name for side in "AB" for name in ((side, "95 % interval") if wide else (side,))]
    table = _table("", *sides, "B − A", "95 % interval", left_aligned=1)
    for name, score, scale in (("success", comparison.success, 100.0), ("reward", comparison.reward, 1.0)):
        for what, aggregate in (("mean", score.mean), ("middle half", score.interquartile_mean)):
            table.add_row(_name(f"{name}, {what}"), *_aggregate_cells(aggregate, scale, wide))
    return table


def _aggregate_cells(aggregate: Aggregate, scale: float, wide: bool) -> list[Any]:
    sides: list[Any] = []
    for side in (aggregate.a, aggregate.b):
        sides += _estimate_cells(side, scale, sign="")[: 2 if wide else 1]
    value, interval = _estimate_cells(aggregate.difference, scale, sign="+")
    return [*sides, _colored(value, aggregate.difference.interval), interval]


def _estimate_cells(estimate: Estimate, scale: float, sign: str) -> tuple[str, str]:
    """Return a number and its interval; percentages have one digit after the point, others three."""
    form = sign + (".1f" if scale > 1 else ".3f")
    low, high = (format(scale * bound, form) for bound in estimate.interval)
    return format(scale * estimate.value, form) + (" %" if scale > 1 else ""), f"{low} to {high}"


def _improvement(name: str, estimate: Estimate) -> Text:
    value, interval = _estimate_cells(estimate, 100.0, sign="")
    return Text(f"A run of B has more {name} than a run of A on a random task: {value} ({interval})")


def _profile_table(name: str, profile: Profile) -> Table:
    columns = [f"{threshold:.2g}" for threshold in profile.thresholds[:-1]]
    table = _table(name, *columns, left_aligned=1, space=1)
    for letter, shares in (("A", profile.a), ("B", profile.b)):
        table.add_row(letter, *(f"{100 * share:.0f} %" for share in shares[:-1]))
    return table


def _table(*columns: str, left_aligned: int, space: int = 2) -> Table:
    """Return an empty table whose first `left_aligned` columns are aligned to the left."""
    table = Table(box=None, padding=(0, space, 0, 0), header_style="dim")
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index < left_aligned else "right", no_wrap=index >= left_aligned)
    return table


def _name(text: str, style: str = "") -> Text:
    """Return the name of a row, which is shortened if the console is narrow."""
    return Text(plain(text), style=style, no_wrap=True, overflow="ellipsis")


def _end_of(path: str) -> str:
    """Return a path, shortened to its end if it is long: the paths of two runs differ there."""
    return path if len(path) <= _MAX_PATH else f"…{path[-_MAX_PATH:]}"


def _points(interval: Interval) -> str:
    return f"{100 * interval.low:+.1f} to {100 * interval.high:+.1f}"


def _colored(text: str, interval: Interval) -> Text:
    """Return text in green or red if the whole interval is above or below 0."""
    return Text(text, style="green" if interval.low > 0 else "red" if interval.high < 0 else "")
