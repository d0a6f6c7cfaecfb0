"""`compare`: compares two runs on the same tasks, task by task.

Failed episodes say nothing about the model and are left out, as is a task if all attempts of one side failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Literal

from agentgym.base.errors import UsageError
from agentgym.eval.comparison.runs import WHOLE_SEARCH, Attempt, Run, TaskKey, check_comparable, policy_arguments
from agentgym.eval.statistics import Interval, paired_difference, sign_test, success_difference

Verdict = Literal["won", "lost", "tied"]


@dataclass(frozen=True)
class Side:
    """A run in a comparison."""

    name: str
    policy: str
    tasks: int
    """Number of its tasks."""
    attempts: int
    failed: int
    """Attempts that failed because of something around the model."""
    only_here: int
    """Tasks that the other run lacks."""
    all_failed: int
    """Tasks of both runs where every attempt of this one failed."""


@dataclass(frozen=True)
class MeasureChange:
    """The mean of a number over tasks on both sides, and its difference."""

    a: float
    b: float
    difference: float
    """`b - a`."""
    interval: Interval
    """95 % bootstrap interval of the difference, over tasks."""
    tasks: int


@dataclass(frozen=True)
class PartResult:
    """The success of both sides on a subset of the tasks."""

    success: MeasureChange
    won: int
    """Tasks that B solves more often than A."""
    lost: int
    tied: int


@dataclass(frozen=True)
class TaskResult:
    """One task on both sides."""

    env_id: str
    task_id: str
    difficulty: int
    a: float
    """Success rate of A."""
    b: float
    verdict: Verdict
    """The result of B compared with A."""


@dataclass(frozen=True)
class Comparison:
    """How run B differs from run A."""

    a: Side
    b: Side
    arguments: dict[str, tuple[Any, Any]]
    """Arguments of the environment that differ between the policies, such as the dialect."""
    overall: PartResult
    p_value: float | None
    """Exact two-sided sign test over the tasks won and lost (McNemar's exact test); `None` unless both sides have one
    attempt per task."""
    by_environment: dict[str, PartResult]
    by_difficulty: dict[int, PartResult]
    by_tag: dict[str, PartResult]
    measures: dict[str, MeasureChange]
    """Means per episode, averaged over tasks."""
    tasks: list[TaskResult]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON data."""
        return asdict(self)


@dataclass(frozen=True)
class _Pair:
    key: TaskKey
    a: Sequence[Attempt]
    b: Sequence[Attempt]

    @property
    def rates(self) -> tuple[float, float]:
        return _rate(self.a), _rate(self.b)

    @property
    def verdict(self) -> Verdict:
        before, after = self.rates
        return "tied" if before == after else "won" if after > before else "lost"


def compare(a: Run, b: Run, *, seed: int = 0) -> Comparison:
    """Compare run B with run A.

    Args:
        a: The baseline.
        b: The run to compare with it.
        seed: Seed of the bootstrap.

    Raises:
        UsageError: The environments, arguments or versions of tasks differ, or no task has a valid attempt on both
            sides.
    """
    check_comparable(a, b)
    both = [key for key in a.tasks if key in b.tasks]
    pairs = [_Pair(key, a.valid(key), b.valid(key)) for key in both]
    pairs = [pair for pair in pairs if pair.a and pair.b]
    if not pairs:
        raise UsageError(f"no task has an episode that did not fail in both {a.name!r} and {b.name!r}")
    overall = _part(pairs, seed)
    once = all(len(pair.a) == len(pair.b) == 1 for pair in pairs)
    return Comparison(
        a=_side(a, b),
        b=_side(b, a),
        arguments=policy_arguments(a, b),
        overall=overall,
        p_value=sign_test(overall.won, overall.lost) if once else None,
        by_environment=_parts(pairs, lambda pair: [pair.key[0]], seed),
        by_difficulty=_parts(pairs, lambda pair: [pair.a[0].difficulty], seed),
        by_tag=_parts(pairs, lambda pair: pair.a[0].tags, seed),
        measures=_measures(pairs, seed),
        tasks=[TaskResult(*pair.key, pair.a[0].difficulty, *pair.rates, pair.verdict) for pair in pairs],
    )


def _side(run: Run, other: Run) -> Side:
    only_here = sum(key not in other.tasks for key in run.tasks)
    all_failed = sum(key in other.tasks and not run.valid(key) for key in run.tasks)
    return Side(run.name, run.policy, len(run.tasks), len(run.attempts), run.failed, only_here, all_failed)


def _part(pairs: Sequence[_Pair], seed: int) -> PartResult:
    before, after = zip(*(pair.rates for pair in pairs), strict=True)
    difference, interval = success_difference(before, after, seed)
    verdicts = [pair.verdict for pair in pairs]
    change = MeasureChange(fmean(before), fmean(after), difference, interval, len(pairs))
    return PartResult(change, verdicts.count("won"), verdicts.count("lost"), verdicts.count("tied"))


def _parts(pairs: Sequence[_Pair], keys: Callable[[_Pair], Iterable[Any]], seed: int) -> dict[Any, PartResult]:
    parts: dict[Any, list[_Pair]] = {}
    for pair in pairs:
        for key in keys(pair):
            parts.setdefault(key, []).append(pair)
    return {key: _part(part, seed) for key, part in sorted(parts.items())}


def _measures(pairs: Sequence[_Pair], seed: int) -> dict[str, MeasureChange]:
    """Return how each measure differs, over the tasks where both sides have it."""
    names = dict.fromkeys(name for pair in pairs for attempt in pair.a for name in attempt.measures)
    changes: dict[str, MeasureChange] = {}
    if not any(attempt.is_searched for pair in pairs for attempt in (*pair.a, *pair.b)):
        names = [name for name in names if not name.startswith(WHOLE_SEARCH)]
    for name in names:
        means = [(_mean(pair.a, name), _mean(pair.b, name)) for pair in pairs]
        if pairs_of_means := [(before, after) for before, after in means if before is not None and after is not None]:
            before, after = zip(*pairs_of_means, strict=True)
            difference, interval = paired_difference(before, after, seed)
            changes[name] = MeasureChange(fmean(before), fmean(after), difference, interval, len(pairs_of_means))
    return changes


def _mean(attempts: Sequence[Attempt], name: str) -> float | None:
    values = [attempt.measures[name] for attempt in attempts if name in attempt.measures]
    return fmean(values) if values else None


def _rate(attempts: Sequence[Attempt]) -> float:
    return sum(attempt.success for attempt in attempts) / len(attempts)
