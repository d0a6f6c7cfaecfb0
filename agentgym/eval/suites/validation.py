"""Validates tasks: their gold, their pins, duplicates and contamination of a text set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from statistics import fmean, median
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.core.endings import Reason
from agentgym.core.policy import ScriptedPolicy
from agentgym.core.task import Task
from agentgym.core.trajectory import Trajectory
from agentgym.eval.evaluation import evaluation_jobs
from agentgym.eval.overlap import Contamination, LocatedTask, TaskPair, find_pairs, words_of
from agentgym.eval.suites.doctor import Examination, examine
from agentgym.eval.suites.loading import TaskSet, set_of_entry
from agentgym.eval.suites.suite import SuiteEntry
from agentgym.rollout import EnvFactory, Limits, RolloutEngine


@dataclass(frozen=True)
class GoldFault:
    """A task whose solution did not get full marks."""

    task_id: str
    reason: str
    """Why not."""
    failed: bool
    """Whether something around the task failed, so that its gold could not be checked."""


def check_gold(
    factory: EnvFactory,
    tasks: Sequence[Task],
    *,
    limits: Limits | None = None,
    seed: int = 0,
    workers: str = "threads",
    on_done: Callable[[], object] = lambda: None,
) -> Iterator[GoldFault]:
    """Play the solution of each task and yield the tasks that it did not solve, as episodes finish.

    Args:
        factory: Makes the environments.
        tasks: The tasks to check.
        limits: Limits of each episode.
        seed: Random seed of the episodes.
        workers: Where the environments run (`RolloutEngine`).
        on_done: Called after each task.

    Raises:
        UsageError: The environment cannot be made, or lacks a solution.
    """
    with RolloutEngine(factory, ScriptedPolicy(), limits, workers=workers) as engine:
        for trajectory in engine.trajectories(evaluation_jobs(tasks, 1, seed)):
            on_done()
            if not trajectory.success:
                yield _fault(trajectory)


def _fault(trajectory: Trajectory) -> GoldFault:
    if trajectory.failed:
        failed = trajectory.reason is not Reason.SCRIPT_FAILED
        return GoldFault(trajectory.task_id, f"{trajectory.reason}: {trajectory.error}", failed=failed)
    reason = f"the solution got outcome {trajectory.outcome:g} ({trajectory.reason})"
    return GoldFault(trajectory.task_id, reason, failed=False)


@dataclass(frozen=True)
class Lengths:
    """Lengths of the prompts."""

    shortest: int
    median: float
    mean: float
    longest: int


@dataclass(frozen=True)
class TaskStats:
    """Statistics of a set of tasks."""

    tasks: int
    by_split: Mapping[str, int]
    by_difficulty: Mapping[int, int]
    by_tag: Mapping[str, int]
    """Most frequent first; a task may have several tags."""
    characters: Lengths
    words: Lengths


def task_stats(tasks: Sequence[Task]) -> TaskStats:
    """Return statistics of a set of at least one task."""
    return TaskStats(
        tasks=len(tasks),
        by_split=dict(Counter(task.split for task in tasks)),
        by_difficulty=dict(sorted(Counter(task.difficulty for task in tasks).items())),
        by_tag=dict(Counter(tag for task in tasks for tag in task.tags).most_common()),
        characters=_lengths(len(task.prompt) for task in tasks),
        words=_lengths(len(words_of(task.prompt)) for task in tasks),
    )


def _lengths(numbers: Iterable[int]) -> Lengths:
    ordered = sorted(numbers)
    return Lengths(ordered[0], median(ordered), fmean(ordered), ordered[-1])


OnSolution = Callable[[str, int, int], object]
"""Called with the place, the number of tasks finished there so far, and their total."""


@dataclass
class ValidationReport:
    """The checks and the faults that they found."""

    tasks: dict[str, int] = field(default_factory=dict)
    """Number of tasks by place: the entry of a suite, or the split."""
    gold: dict[str, list[GoldFault]] = field(default_factory=dict)
    """Tasks whose solution did not get full marks, by place; places whose gold was not checked are missing."""
    gone: dict[str, list[str]] = field(default_factory=dict)
    """Ids of pinned tasks that no longer exist, by place."""
    changed: dict[str, list[str]] = field(default_factory=dict)
    """Ids of tasks that differ from their pins, by place."""
    unchecked: dict[str, str] = field(default_factory=dict)
    """Places whose environment could not be made or played, with the reason."""
    pairs: Sequence[TaskPair] = ()
    """Tasks that are the same problem, or nearly."""
    repeats_count: bool = True
    """Whether a repeated problem within one place is a fault, as in a suite."""
    contamination: Contamination | None = None
    examinations: dict[str, Examination] = field(default_factory=dict)
    """The doctor's findings, by place. They are advice and do not make a set of tasks invalid."""

    @property
    def faulty_pairs(self) -> Sequence[TaskPair]:
        """Pairs in different places, and in a suite also exact repeats within one place."""
        return [pair for pair in self.pairs if pair.is_across or (pair.is_exact and self.repeats_count)]

    @property
    def passed(self) -> bool:
        """Whether everything was checked without a fault."""
        faults = (*self.gold.values(), *self.gone.values(), *self.changed.values(), self.unchecked, self.faulty_pairs)
        return not any(faults) and not (self.contamination and self.contamination.hits)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        return {
            "passed": self.passed,
            "tasks": self.tasks,
            "gold": {place: [asdict(fault) for fault in faults] for place, faults in self.gold.items()},
            "gone": self.gone,
            "changed": self.changed,
            "unchecked": self.unchecked,
            "pairs": [_pair_data(pair, pair in self.faulty_pairs) for pair in self.pairs],
            "contamination": None if self.contamination is None else _contamination_data(self.contamination),
            "examinations": {place: examination.to_dict() for place, examination in self.examinations.items()},
        }


def _pair_data(pair: TaskPair, is_fault: bool) -> dict[str, Any]:
    return {
        "tasks": [pair.one.task.id, pair.other.task.id],
        "places": [pair.one.place, pair.other.place],
        "similarity": pair.similarity,
        "fault": is_fault,
    }


def _contamination_data(contamination: Contamination) -> dict[str, Any]:
    hits = [{"task": hit.task.id, "where": hit.where, "run": hit.run} for hit in contamination.hits]
    return {
        "hits": hits,
        "compared": contamination.compared,
        "too_short": contamination.too_short,
        "texts": contamination.texts,
    }


def entry_sets(entries: Iterable[SuiteEntry], report: ValidationReport) -> list[TaskSet]:
    """Return the tasks of entries; add to the report those that differ from their pins."""
    sets: list[TaskSet] = []
    for entry in entries:
        try:
            tasks, state = set_of_entry(entry)
        except UsageError as error:
            report.unchecked[entry.name] = str(error)
            continue
        sets.append(tasks)
        if state.gone:
            report.gone[entry.name] = list(state.gone)
        if state.changed:
            report.changed[entry.name] = state.changed
    return sets


def compare_tasks(sets: Sequence[TaskSet], report: ValidationReport, near: float) -> None:
    """Count the tasks and find those that are the same problem, or nearly (`overlap.duplicates`)."""
    report.tasks = {task_set.place: len(task_set.tasks) for task_set in sets}
    report.pairs = find_pairs([LocatedTask(task, task_set.place) for task_set in sets for task in task_set.tasks], near)


def _counter(task_set: TaskSet, on_task: OnSolution) -> Callable[[], object]:
    """Return the function to call after each task of a set, which reports how many are done."""
    numbers = count(1)
    return lambda: on_task(task_set.place, next(numbers), len(task_set.tasks))


def play_gold(
    sets: Sequence[TaskSet],
    report: ValidationReport,
    *,
    concurrency: int,
    workers: str = "threads",
    seed: int = 0,
    on_solution: OnSolution = lambda *_: None,
) -> None:
    """Play the solution of every task. Environments that cannot be played are reported."""
    for task_set in sets:
        limits = replace(task_set.limits, max_in_flight=concurrency)
        try:
            faults = check_gold(
                task_set.factory,
                task_set.tasks,
                limits=limits,
                seed=seed,
                workers=workers,
                on_done=_counter(task_set, on_solution),
            )
            report.gold[task_set.place] = sorted(faults, key=lambda fault: fault.task_id)
        except UsageError as error:
            report.unchecked[task_set.place] = str(error)


def examine_sets(
    sets: Sequence[TaskSet], report: ValidationReport, seed: int = 0, on_task: OnSolution = lambda *_: None
) -> None:
    """Examine golds and graders (`doctor.examine`). Environments that cannot be played are reported."""
    for task_set in sets:
        try:
            report.examinations[task_set.place] = examine(task_set, seed, _counter(task_set, on_task))
        except UsageError as error:
            report.unchecked[task_set.place] = str(error)
