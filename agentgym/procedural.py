"""`ProceduralTasks`: a base for sources that draw their tasks from families of several levels, without end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import ClassVar, Generic, Protocol, TypeVar

from agentgym.choices import some_of
from agentgym.errors import TaskError, UsageError
from agentgym.task import Task, check_split


class Leveled(Protocol):
    """What families have in common."""

    @property
    def name(self) -> str:
        """How it is chosen, and what tasks are tagged with."""
        ...

    @property
    def level(self) -> int:
        """Difficulty of its tasks."""
        ...


F = TypeVar("F", bound=Leveled)


class ProceduralTasks(ABC, Generic[F]):
    """Tasks go round over the levels, and within a level over its families; a split never ends.

    Task `index` of a split depends on nothing but the source's seed, the split and the index. A family that has
    nothing for a task in `draws` tries gives way to the next one of its level.

    Args:
        seed: Other seeds give other tasks.
    """

    prefix: ClassVar[str]
    """What ids begin with: `sql` for `sql/train/17`."""
    draws: ClassVar[int]
    """Draws of one family before another one of its level takes its place."""
    more: ClassVar[str] = "families"
    """What to allow more of when nothing could be drawn."""

    def __init__(self, seed: int = 0):
        self._seed = seed

    @property
    @abstractmethod
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""

    @abstractmethod
    def levels(self, split: str) -> Sequence[Sequence[str]]:
        """Return the names of the families of a split, by level."""

    @abstractmethod
    def family(self, name: str) -> F:
        """Return a family. A source keeps their names only, so that it can be pickled."""

    @abstractmethod
    def draw(self, family: F, split: str, index: int, rng: Random) -> Task | None:
        """Draw a task; `None` if what was drawn cannot be asked, or not in this split."""

    def size(self, split: str) -> None:
        """Return `None`: no split has an end. Raises `TaskError` for an unknown split."""
        check_split(self, split)

    def get(self, split: str, index: int) -> Task:
        """Return task number `index` of `split`."""
        if index < 0:
            raise TaskError(f"task numbers start at 0, not {index}")
        levels = self.levels(check_split(self, split))
        names = levels[index % len(levels)]
        first = index // len(levels) % len(names)
        rng = Random(f"{self.prefix}/{self._seed}/{split}/{index}")
        for name in (*names[first:], *names[:first]):
            rng = self._random(name, split, index, rng)
            for _ in range(self.draws):
                task = self.draw(self.family(name), split, index, rng)
                if task is not None:
                    return task
        raise TaskError(f"found nothing to ask of {', '.join(names)} for split {split!r}; allow more {self.more}")

    def find(self, task_id: str) -> Task:
        """Return the task with an id such as `sql/train/17`."""
        prefix, split, index = [*task_id.split("/"), "", ""][:3]
        canonical = f"{self.prefix}/{split}/{index}"
        if prefix != self.prefix or split not in self.splits or task_id != canonical or not index.isdecimal():
            raise TaskError(f"no task {task_id!r}; ids look like {self.prefix}/{self.splits[0]}/0")
        return self.get(split, int(index))

    def _random(self, family: str, split: str, index: int, rng: Random) -> Random:
        """Return the generator for the draws of a family: the one that families before it have used."""
        return rng


def by_level(families: Iterable[Leveled]) -> list[list[str]]:
    """Return the names of families, grouped by level."""
    levels: dict[int, list[str]] = {}
    for family in families:
        levels.setdefault(family.level, []).append(family.name)
    return [levels[level] for level in sorted(levels)]


def choose_families(
    known: Mapping[str, Leveled], difficulty: int | Sequence[int] | None, names: Sequence[str] | None
) -> list[list[str]]:
    """Return the names of the chosen families, grouped by level. Raises `UsageError` for what is not known."""
    wanted = some_of("difficulty", difficulty, sorted({family.level for family in known.values()}))
    chosen = [known[name] for name in some_of("family", names, known)]
    fitting = by_level(family for family in chosen if family.level in wanted)
    if not fitting:
        raise UsageError(f"none of the families {list(names or ())!r} has difficulty {difficulty!r}")
    return fitting
