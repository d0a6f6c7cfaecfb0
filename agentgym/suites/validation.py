"""Validates tasks: their gold, their pins, duplicates among them, and what a text set shares with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from agentgym.errors import UsageError
from agentgym.overlap.contamination import Contamination
from agentgym.overlap.duplicates import Pair, Placed, find_pairs
from agentgym.suites.gold import GoldFault, check_gold
from agentgym.suites.suite import SuiteEntry
from agentgym.suites.task_sets import TaskSet, set_of_entry

OnSolution = Callable[[str, int, int], object]
"""Called with the place, the number of solutions played there so far, and how many there are."""


@dataclass
class Report:
    """What was checked, and what is wrong."""

    tasks: dict[str, int] = field(default_factory=dict)
    """Number of tasks by place: the entry of a suite, or the split."""
    gold: dict[str, list[GoldFault]] = field(default_factory=dict)
    """The tasks whose solution did not get full marks, by place; a place is missing if its gold was not checked."""
    gone: dict[str, list[str]] = field(default_factory=dict)
    """Ids of pinned tasks that no longer exist, by place."""
    changed: dict[str, list[str]] = field(default_factory=dict)
    """Ids of tasks that differ from what was pinned, by place."""
    unchecked: dict[str, str] = field(default_factory=dict)
    """Places whose environment could not be made or played, with the reason."""
    pairs: Sequence[Pair] = ()
    """Tasks that are the same problem, or nearly."""
    repeats_count: bool = True
    """Whether the same problem twice in one place is a fault, as it is in a suite."""
    contamination: Contamination | None = None

    @property
    def faulty_pairs(self) -> Sequence[Pair]:
        """The pairs in different places, and in a suite also what stands twice in one place."""
        return [pair for pair in self.pairs if pair.is_across or (pair.is_exact and self.repeats_count)]

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong and everything could be checked."""
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
        }


def _pair_data(pair: Pair, is_fault: bool) -> dict[str, Any]:
    return {
        "tasks": [pair.one.task.id, pair.other.task.id],
        "places": [pair.one.place, pair.other.place],
        "similarity": pair.similarity,
        "fault": is_fault,
    }


def _contamination_data(found: Contamination) -> dict[str, Any]:
    hits = [{"task": hit.task.id, "where": hit.where, "run": hit.run} for hit in found.hits]
    return {"hits": hits, "compared": found.compared, "too_short": found.too_short, "texts": found.texts}


def entry_sets(entries: Iterable[SuiteEntry], report: Report) -> list[TaskSet]:
    """Return the tasks of entries, noting in the report those that differ from their pins."""
    sets: list[TaskSet] = []
    for entry in entries:
        try:
            tasks, found = set_of_entry(entry)
        except UsageError as error:
            report.unchecked[entry.name] = str(error)
            continue
        sets.append(tasks)
        if found.gone:
            report.gone[entry.name] = list(found.gone)
        if found.changed:
            report.changed[entry.name] = found.changed
    return sets


def compare_tasks(sets: Sequence[TaskSet], report: Report, near: float) -> None:
    """Count the tasks and look for those that are the same problem, or nearly (`overlap.duplicates`)."""
    report.tasks = {one.place: len(one.tasks) for one in sets}
    report.pairs = find_pairs([Placed(task, one.place) for one in sets for task in one.tasks], near)


def play_gold(
    sets: Sequence[TaskSet],
    report: Report,
    *,
    concurrency: int,
    workers: str = "threads",
    seed: int = 0,
    on_solution: OnSolution = lambda *_: None,
) -> None:
    """Play the solution of every task. An environment that cannot be played is noted, and does not stop the others."""
    for one in sets:
        done: list[None] = []

        def tell(place: str = one.place, total: int = len(one.tasks), done: list[None] = done) -> None:
            done.append(None)
            on_solution(place, len(done), total)

        limits = replace(one.limits, max_in_flight=concurrency)
        try:
            faults = check_gold(one.factory, one.tasks, limits=limits, seed=seed, workers=workers, on_done=tell)
            report.gold[one.place] = sorted(faults, key=lambda fault: fault.task_id)
        except UsageError as error:
            report.unchecked[one.place] = str(error)
