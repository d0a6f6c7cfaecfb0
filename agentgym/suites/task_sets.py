"""Sets of tasks: the entries of a suite, or splits of one environment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from agentgym.foreign.closing import closed_after
from agentgym.foreign.errors import as_usage_error
from agentgym.overlap.words import problem_tokens
from agentgym.rollout.jobs import EnvFactory
from agentgym.rollout.limits import Limits
from agentgym.suites.pins import PinState, find_pinned
from agentgym.suites.suite import SuiteEntry
from agentgym.task import Task, TaskSource, check_split


@dataclass(frozen=True)
class TaskSet:
    """A set of tasks of one environment."""

    place: str
    """The entry of a suite, or the split."""
    factory: EnvFactory
    tasks: Sequence[Task]
    limits: Limits = field(default_factory=Limits)


def set_of_entry(entry: SuiteEntry) -> tuple[TaskSet, PinState]:
    """Return the pinned tasks of an entry that still exist, and how they differ from their pins."""
    with entry.opened() as env:
        state = find_pinned(env.tasks, entry.pins, entry.places)
    # Solutions write calls in the environment's own dialect.
    kwargs = {name: value for name, value in entry.factory.kwargs.items() if name != "dialect"}
    return TaskSet(entry.name, EnvFactory(entry.factory.env_id, kwargs), state.tasks, entry.limits), state


def sets_of_env(factory: EnvFactory, splits: Sequence[str] | None, number: int) -> list[TaskSet]:
    """Return tasks of the splits of an environment.

    Args:
        factory: Makes the environment.
        splits: Names of the splits; `None` for all.
        number: Maximum number of tasks per split, spread evenly over a larger split.
    """
    with closed_after(factory()) as env:
        names = env.tasks.splits if splits is None else [check_split(env.tasks, split) for split in splits]
        return [TaskSet(split, factory, list(spread(env.tasks, split, number))) for split in names]


def spread(source: TaskSource, split: str, number: int) -> Iterator[Task]:
    """Yield up to `number` tasks, spread evenly over a finite split, or the first ones of an endless split."""
    size = source.size(check_split(source, split))
    count = number if size is None else min(number, size)
    for index in range(count):
        place = index if size is None else index * size // count
        with as_usage_error(f"task {place} of the split {split!r} cannot be loaded"):
            task = source.get(split, place)
        yield task


def different(source: TaskSource, split: str, number: int) -> list[Task]:
    """Return up to `number` different problems of a split, chosen like `spread`.

    Of an endless split, up to ten times as many tasks are examined.
    """
    limit = number if source.size(check_split(source, split)) is not None else 10 * number
    by_tokens: dict[tuple[str, ...], Task] = {}
    for task in spread(source, split, limit):
        by_tokens.setdefault(tuple(problem_tokens(task)), task)
        if len(by_tokens) == number:
            break
    return list(by_tokens.values())
