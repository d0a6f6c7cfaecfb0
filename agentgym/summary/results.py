"""`Summary`: a policy's results over a set of trajectories, with confidence intervals.

Failed trajectories (infrastructure failures) say nothing about the model: they are counted but left out of all rates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf
from statistics import fmean
from typing import Any

from agentgym.endings import Reason
from agentgym.measures import Measures, measure
from agentgym.results.entry import Entry, entry_of
from agentgym.statistics import Interval, mean_of_means, pass_at_k, pass_hat_k, powers_up_to, success_interval
from agentgym.trajectory import Trajectory

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
