"""How comparisons are printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agentgym.comparison.pairs import Change, Comparison, Part, Side
from agentgym.comparison.seeds import Aggregate, Estimate, Profile, SeedsComparison
from agentgym.results.plain import plain
from agentgym.statistics import Interval
from agentgym.summary.tables import MAX_TAGS, WIDE, percent

_MAX_TASKS = 1_000
"""Number of tasks to print; --json has all of them."""

_MAX_PATH = 32
"""Number of characters of a file's path to print."""


def print_comparison(found: Comparison, console: Console, *, tasks: bool = False) -> None:
    """Print how run B differs from run A.

    Args:
        found: The comparison.
        console: Where to print.
        tasks: Also list each task that was won or lost.
    """
    body: list[Any] = [_sides(found), Text(), _parts_table(found), Text(), _verdict(found), Text(), _measures(found)]
    console.print(Panel(Group(*body), title="B compared with A", title_align="left", expand=False, padding=(1, 2)))
    for note in _notes(found):
        console.print(Text(note, style="bold yellow"))
    if tasks:
        _print_tasks(found, console)


def print_seeds(found: SeedsComparison, console: Console) -> None:
    """Print how the runs of method B differ from those of method A."""
    runs = f"A: {len(found.a)} run(s), B: {len(found.b)} run(s), {found.tasks} tasks in all of them"
    scores = {"success": found.success, "reward": found.reward}
    body: list[Any] = [Text(runs), Text(), _scores_table(found, console.width >= WIDE), Text()]
    body += [_improvement(name, score.probability_of_improvement) for name, score in scores.items()]
    body += [Text(), Text("Share of scores, over runs and tasks, above:", style="dim")]
    body += [_profile_table(name, score.profile) for name, score in scores.items()]
    console.print(Panel(Group(*body), title="B compared with A", title_align="left", expand=False, padding=(1, 2)))
    if min(len(found.a), len(found.b)) < 3:
        console.print(Text("Fewer than 3 runs on a side say little about other seeds.", style="bold yellow"))
    if found.left_out or found.failed:
        left = f"{found.left_out} task(s) that only some runs have, and {found.failed} with failed episodes only"
        console.print(Text(f"Left out: {left} in some run.", style="bold yellow"))


def differences_table(found: Sequence[Comparison]) -> Table:
    """Return how policies differ from the first one in success, over the tasks of both."""
    first = found[0].a.policy
    table = _table(f"compared with {first}", "difference", "95 % interval", "won", "lost", "tied", "p", left=1)
    for one in found:
        part = one.overall
        p = "–" if one.p_value is None else f"{one.p_value:.2g}"
        difference = _colored(f"{100 * part.success.difference:+.1f}", part.success.interval)
        counts = (part.won, part.lost, part.tied)
        table.add_row(_name(one.b.policy), difference, _points(part.success.interval), *map(str, counts), p)
    return table


def _sides(found: Comparison) -> Table:
    table = _table("", "policy", "file", "tasks", "episodes", "failed", left=3)
    for letter, side in (("A", found.a), ("B", found.b)):
        cells = _name(side.policy), _name(_end_of(side.name))
        table.add_row(Text(letter, style="bold"), *cells, str(side.tasks), str(side.attempts), str(side.failed))
    for name, (before, after) in found.arguments.items():
        table.add_row("", _name(f"{name}: {before} and {after}", "dim"))
    return table


def _parts_table(found: Comparison) -> Table:
    table = _table("success", "A %", "B %", "B − A", "95 % interval", "won", "lost", "tied", left=1)
    _add_part(table, _name("all", "bold"), found.overall)
    if len(found.by_environment) > 1:
        for env_id, part in found.by_environment.items():
            _add_part(table, _name(env_id, "bold"), part)
    for level, part in found.by_difficulty.items():
        _add_part(table, _name(f"difficulty {level}"), part)
    by_size = sorted(found.by_tag.items(), key=lambda item: -abs(item[1].success.difference))
    for tag, part in by_size[:MAX_TAGS]:
        _add_part(table, _name(tag, "cyan"), part)
    if (more := len(by_size) - MAX_TAGS) > 0:
        table.add_row(_name(f"… {more} more tags", "dim"))
    return table


def _add_part(table: Table, name: Text, part: Part) -> None:
    change, counts = part.success, (part.won, part.lost, part.tied)
    difference = _colored(f"{100 * change.difference:+.1f}", change.interval)
    shares = f"{100 * change.a:.1f}", f"{100 * change.b:.1f}"
    table.add_row(name, *shares, difference, _points(change.interval), *map(str, counts))


def _verdict(found: Comparison) -> Text:
    low, high = found.overall.success.interval
    if low > 0:
        text = "B solves more: the interval of the difference is above 0."
    elif high < 0:
        text = "B solves less: the interval of the difference is below 0."
    else:
        text = "No difference is shown: its interval contains 0."
    if found.p_value is not None:
        text += f" Exact sign test of {found.overall.won} won and {found.overall.lost} lost: p = {found.p_value:.2g}."
    return Text(text, style="bold")


def _measures(found: Comparison) -> Table:
    table = _table("per episode", "A", "B", "B − A", "95 % interval", left=1)
    for name, change in found.measures.items():
        of = "" if change.tasks == found.overall.success.tasks else f" ({change.tasks} tasks)"
        digits = _digits(change)
        means = f"{change.a:.{digits}f}", f"{change.b:.{digits}f}"
        interval = f"{change.interval.low:+.{digits}f} to {change.interval.high:+.{digits}f}"
        table.add_row(_name(name + of), *means, f"{change.difference:+.{digits}f}", interval)
    return table


def _digits(change: Change) -> int:
    largest = max(abs(change.a), abs(change.b))
    return 1 if largest >= 100 else 2 if largest >= 10 else 3 if largest >= 0.1 or not largest else 6


def _notes(found: Comparison) -> Iterable[str]:
    """Yield what was left out, and why."""
    for letter, side in (("A", found.a), ("B", found.b)):
        if side.only_here:
            yield f"{side.only_here} task(s) are only in {letter} and were not compared."
        if note := _about_failures(side):
            yield f"{letter}: {note}"


def _about_failures(side: Side) -> str:
    if not side.failed:
        return ""
    note = f"{side.failed} episode(s) failed because something around the model broke; they do not count as wrong."
    return f"{note} {side.all_failed} task(s) have no other and were not compared." if side.all_failed else note


def _print_tasks(found: Comparison, console: Console) -> None:
    """List the tasks that were won and lost, and count the others."""
    table = _table("task", "difficulty", "A", "B", "B has", left=1)
    decided = sorted((one for one in found.tasks if one.verdict != "tied"), key=lambda one: (one.verdict, one.task_id))
    for one in decided[:_MAX_TASKS]:
        verdict = Text(one.verdict, style="green" if one.verdict == "won" else "red")
        table.add_row(_name(one.task_id), str(one.difficulty), percent(one.a), percent(one.b), verdict)
    console.print(table)
    rest = f"{found.overall.tied} task(s) are tied"
    if (more := len(decided) - _MAX_TASKS) > 0:
        rest = f"… and {more} more won or lost; {rest}"
    console.print(Text(f"{rest}; --json lists all.", style="dim"))


def _scores_table(found: SeedsComparison, wide: bool) -> Table:
    sides = [name for side in "AB" for name in ((side, "95 % interval") if wide else (side,))]
    table = _table("", *sides, "B − A", "95 % interval", left=1)
    for name, score, scale in (("success", found.success, 100.0), ("reward", found.reward, 1.0)):
        for what, aggregate in (("mean", score.mean), ("middle half", score.interquartile_mean)):
            table.add_row(_name(f"{name}, {what}"), *_aggregate_cells(aggregate, scale, wide))
    return table


def _aggregate_cells(found: Aggregate, scale: float, wide: bool) -> list[Any]:
    sides: list[Any] = []
    for side in (found.a, found.b):
        sides += _estimate_cells(side, scale, sign="")[: 2 if wide else 1]
    value, interval = _estimate_cells(found.difference, scale, sign="+")
    return [*sides, _colored(value, found.difference.interval), interval]


def _estimate_cells(found: Estimate, scale: float, sign: str) -> tuple[str, str]:
    """Return a number and its interval; percentages have one digit after the point, others three."""
    form = sign + (".1f" if scale > 1 else ".3f")
    low, high = (format(scale * bound, form) for bound in found.interval)
    return format(scale * found.value, form) + (" %" if scale > 1 else ""), f"{low} to {high}"


def _improvement(name: str, found: Estimate) -> Text:
    value, interval = _estimate_cells(found, 100.0, sign="")
    return Text(f"A run of B has more {name} than a run of A on a random task: {value} ({interval})")


def _profile_table(name: str, profile: Profile) -> Table:
    columns = [f"{threshold:.2g}" for threshold in profile.thresholds[:-1]]
    table = _table(name, *columns, left=1, space=1)
    for letter, shares in (("A", profile.a), ("B", profile.b)):
        table.add_row(letter, *(f"{100 * share:.0f} %" for share in shares[:-1]))
    return table


def _table(*columns: str, left: int, space: int = 2) -> Table:
    """Return an empty table whose first columns are aligned to the left."""
    table = Table(box=None, padding=(0, space, 0, 0), header_style="dim")
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index < left else "right", no_wrap=index >= left)
    return table


def _name(text: str, style: str = "") -> Text:
    """Return the name of a row, which gives way to the numbers where the console is narrow."""
    return Text(plain(text), style=style, no_wrap=True, overflow="ellipsis")


def _end_of(path: str) -> str:
    """Return a path, of which only the end is left if it is long: there the paths of two runs differ."""
    return path if len(path) <= _MAX_PATH else f"…{path[-_MAX_PATH:]}"


def _points(interval: Interval) -> str:
    return f"{100 * interval.low:+.1f} to {100 * interval.high:+.1f}"


def _colored(text: str, interval: Interval) -> Text:
    """Return text in green or red if the whole interval is above or below 0."""
    return Text(text, style="green" if interval.low > 0 else "red" if interval.high < 0 else "")
