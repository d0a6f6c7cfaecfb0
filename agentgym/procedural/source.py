"""`ProceduralTasks`: base class for endless sources that draw tasks from families of several levels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar, Generic, TypeVar

from agentgym.errors import TaskError
from agentgym.procedural.families import by_difficulty, by_level, choose_families
from agentgym.procedural.family import Family
from agentgym.procedural.scene import NoFit
from agentgym.procedural.splits import divide
from agentgym.task import Task, check_split, parse_task_id

F = TypeVar("F", bound=Family[Any, Any])


class ProceduralTasks(ABC, Generic[F]):
    """Tasks cycle through the levels, and within a level through its families. Every split is endless.

    Task `index` of a split depends only on the source's arguments, the split and the index. If a family fails to draw a
    task in `draws` tries, the next family of its level is used.

    Args:
        difficulty: The level or levels; `None` for all.
        families: Names of families; `None` for all families of the levels.
        seed: Random seed. Different seeds give different tasks.
        where: Values of additional attributes of the families, by attribute (see `choose_families`).
    """

    prefix: ClassVar[str]
    """Prefix of the task ids: `sql` for `sql/train/17`."""
    draws: ClassVar[int] = 100
    """Number of draws of one family for a task before the next family of its level is used."""
    more: ClassVar[str] = "families"
    """Named in the error when no family can draw a task: "allow more ..."."""

    def __init__(
        self,
        difficulty: int | Sequence[int] | None = None,
        families: str | Sequence[str] | None = None,
        seed: int = 0,
        *,
        where: Mapping[str, str | Sequence[str] | None] | None = None,
    ):
        self._seed = seed
        matching = choose_families(self.known(), difficulty, families, where)
        # Keep only the names, so that the source can be pickled even if its families cannot.
        self._levels = {split: by_level(group) for split, group in self.divided(matching).items()}

    @classmethod
    @abstractmethod
    def known(cls) -> Mapping[str, F]:
        """Return all families by name."""

    @abstractmethod
    def draw(self, family: F, split: str, index: int, rng: Random) -> Task:
        """Draw a task. Raises `NoFit` if the draft makes no good task or belongs to another split.

        Args:
            family: The family to draw from.
            split: The split that the task is for.
            index: The number of the task.
            rng: The only random number generator to use.
        """

    def divided(self, families: Sequence[F], /) -> Mapping[str, Sequence[F]]:
        """Return the families of each split, out of those selected. By default, the held-out ones form `test_unseen`.

        Called by the constructor.
        """
        return divide(families, lambda family: family.held_out)

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(self._levels)

    @property
    def families(self) -> tuple[F, ...]:
        """The families that tasks are drawn from, easiest first."""
        names = dict.fromkeys(name for levels in self._levels.values() for level in levels for name in level)
        return tuple(by_difficulty(map(self.family, names)))

    def levels(self, split: str) -> Sequence[Sequence[str]]:
        """Return the names of the families of a split, by level."""
        return self._levels[check_split(self, split)]

    def family(self, name: str) -> F:
        """Return the family with this name."""
        return self.known()[name]

    def id_of(self, split: str, index: int) -> str:
        """Return the id of task number `index` of `split`."""
        return f"{self.prefix}/{split}/{index}"

    def size(self, split: str) -> None:
        """Return `None`: every split is endless. Raises `TaskError` for an unknown split."""
        check_split(self, split)

    def get(self, split: str, index: int) -> Task:
        """Return task number `index` of `split`."""
        if index < 0:
            raise TaskError(f"task numbers start at 0, not {index}")
        levels = self.levels(split)
        names = levels[index % len(levels)]
        first = index // len(levels) % len(names)
        rng = Random(f"{self.prefix}/{self._seed}/{split}/{index}")
        for name in (*names[first:], *names[:first]):
            task = self._first_fit(self.family(name), split, index, self._random(name, split, index, rng))
            if task is not None:
                return task
        raise TaskError(f"found nothing to ask of {', '.join(names)} for split {split!r}; allow more {self.more}")

    def find(self, task_id: str) -> Task:
        """Return the task with an id such as `sql/train/17`."""
        return self.get(*parse_task_id(task_id, self.prefix, self.splits))

    def _first_fit(self, family: F, split: str, index: int, rng: Random) -> Task | None:
        """Return the first task that a family draws within `draws` tries, or `None`."""
        for _ in range(self.draws):
            try:
                return self.draw(family, split, index, rng)
            except NoFit:
                continue
        return None

    def _random(self, family: str, split: str, index: int, rng: Random) -> Random:
        """Return the generator for a family's draws. By default, it continues where the previous family stopped."""
        return rng
