"""The tasks that a command is about: the entries of a suite, or splits of one environment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from agentgym.foreign.closing import closed_after
from agentgym.foreign.errors import as_usage_error
from agentgym.overlap.words import problem_tokens
from agentgym.rollout.jobs import EnvFactory
from agentgym.rollout.limits import Limits
from agentgym.suites.pins import Found, find_pinned
from agentgym.suites.suite import SuiteEntry
from agentgym.task import Task, TaskSource, check_split


@dataclass(frozen=True)
class TaskSet:
    """Tasks of one environment that stand together."""

    place: str
    """The entry of a suite, or the split."""
    factory: EnvFactory
    tasks: Sequence[Task]
    limits: Limits = field(default_factory=Limits)


def set_of_entry(entry: SuiteEntry) -> tuple[TaskSet, Found]:
    """Return the pinned tasks of an entry that still exist, and how they differ from their pins."""
    with entry.opened() as env:
        found = find_pinned(env.tasks, entry.pins, entry.places)
    # Solutions are played, which write calls in the environment's own dialect.
    kwargs = {name: value for name, value in entry.factory.kwargs.items() if name != "dialect"}
    return TaskSet(entry.name, EnvFactory(entry.factory.env_id, kwargs), found.tasks, entry.limits), found


def sets_of_env(factory: EnvFactory, splits: Sequence[str] | None, number: int) -> list[TaskSet]:
    """Return tasks of the splits of an environment.

    Args:
        factory: Makes the environment.
        splits: Names of the splits; `None` for all.
        number: Maximum number of tasks per split, spread evenly over a split that has more.
    """
    with closed_after(factory()) as env:
        chosen = env.tasks.splits if splits is None else [check_split(env.tasks, split) for split in splits]
        return [TaskSet(split, factory, list(spread(env.tasks, split, number))) for split in chosen]


def spread(source: TaskSource, split: str, number: int) -> Iterator[Task]:
    """Yield up to `number` tasks, spread evenly over a split with an end; the first ones of an endless split."""
    size = source.size(check_split(source, split))
    count = number if size is None else min(number, size)
    for index in range(count):
        place = index if size is None else index * size // count
        with as_usage_error(f"task {place} of the split {split!r} cannot be loaded"):
            task = source.get(split, place)
        yield task


def different(source: TaskSource, split: str, number: int) -> list[Task]:
    """Return up to `number` tasks of a split as `spread` does, each problem once.

    An endless split is searched until there are enough, but for no more than ten times as many.
    """
    wanted = number if source.size(check_split(source, split)) is not None else 10 * number
    found: dict[tuple[str, ...], Task] = {}
    for task in spread(source, split, wanted):
        found.setdefault(tuple(problem_tokens(task)), task)
        if len(found) == number:
            break
    return list(found.values())
