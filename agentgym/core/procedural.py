"""`ProceduralTasks`: base class for endless sources that draw tasks from families of several levels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

from agentgym.base.choices import some_of
from agentgym.base.errors import TaskError, UsageError
from agentgym.core.task import SHARES, TEST, TEST_UNSEEN, TRAIN, VALIDATION, Task, check_split, parse_task_id, split_of

Wording = Literal["natural", "plain"]
"""Wordings of prompts: natural language, or a small vocabulary for very small models."""


class Draft(Protocol):
    """A problem that a family has drawn but not yet worded. Each source has its own draft class."""

    @property
    def words(self) -> Mapping[str, Any]:
        """Values for the fields of the phrasings."""
        ...


SceneT = TypeVar("SceneT")
DraftT = TypeVar("DraftT", bound=Draft)


@dataclass(frozen=True)
class Family(Generic[SceneT, DraftT]):
    """A kind of task. Subclass it to add attributes, such as the web site of the tasks."""

    name: str
    """Users select families by name."""
    level: int
    """Difficulty of the tasks, from 1 (easy) upwards."""
    phrasings: tuple[str, ...]
    """Prompts with `{fields}` for the words of a draft. Each task uses one prompt."""
    draw: Callable[[SceneT], DraftT]
    """Draws a problem from a scene. It may raise `NoFit`."""
    plain: tuple[str, ...] = field(default=(), kw_only=True)
    """Prompts in a small vocabulary, for models too small for `phrasings`; by default `phrasings`."""
    held_out: bool = field(default=False, kw_only=True)
    """Whether tasks of this family occur only in the split `test_unseen`."""

    def __post_init__(self):
        if self.level < 1 or not self.phrasings:
            raise UsageError(f"family {self.name!r} needs a level of at least 1 and at least one phrasing")

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of all tasks of this family."""
        return (self.name, f"L{self.level}")

    def word(self, draft: DraftT, rng: Random, wording: Wording = "natural") -> str:
        """Return the draft's text in a random phrasing. Draw it last: then the wording does not change the problem."""
        return rng.choice(self.worded(wording)).format_map(draft.words)

    def worded(self, wording: Wording) -> tuple[str, ...]:
        """Return the phrasings of a wording."""
        return self.plain if wording == "plain" and self.plain else self.phrasings

    def task(
        self,
        task_id: str,
        split: str,
        prompt: str,
        *,
        data: Mapping[str, Any] | None = None,
        gold: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
    ) -> Task:
        """Return a task with this family's difficulty and tags; `tags` are added for this task only."""
        return Task(
            id=task_id,
            split=split,
            prompt=prompt,
            difficulty=self.level,
            data=data or {},
            gold=gold or {},
            tags=(*self.tags, *tags),
        )


T = TypeVar("T")


class NoFit(Exception):
    """The drawn content gives the family nothing to ask; the source draws again."""


class Scene:
    """A source of randomness. Subclasses add the content that families ask about, such as a database.

    Args:
        rng: The only random number generator that a family may use.
    """

    def __init__(self, rng: Random):
        self.rng = rng

    def choice(self, items: Collection[T]) -> T:
        """Return a random item. Raises `NoFit` if `items` is empty."""
        if not items:
            raise NoFit
        return self.rng.choice(tuple(items))

    def need(self, condition: object) -> None:
        """Raise `NoFit` unless the condition holds."""
        if not condition:
            raise NoFit


F = TypeVar("F", bound=Family[Any, Any])
Draw = TypeVar("Draw", bound=Callable[..., Any])


class Families(Mapping[str, F], Generic[F]):
    """Families by name, in order of registration.

    Args:
        kind: The class of the families.
    """

    def __init__(self, kind: Callable[..., F]):
        self._kind = kind
        self._by_name: dict[str, F] = {}

    def register(self, level: int, *phrasings: str, name: str | None = None, **own: Any) -> Callable[[Draw], Draw]:
        """Return a decorator that turns a drawing function into a family.

        Args:
            level: Difficulty, from 1 upwards.
            phrasings: Prompts with `{fields}` for the words of a draft.
            name: Name of the family; by default the function's name.
            own: Values of additional attributes of this kind of family.
        """

        def enter(draw: Draw) -> Draw:
            family_name = name or draw.__name__
            if family_name in self._by_name:
                raise UsageError(f"family {family_name!r} already exists")
            self._by_name[family_name] = self._kind(
                name=family_name, level=level, phrasings=phrasings, draw=draw, **own
            )
            return draw

        return enter

    def __getitem__(self, name: str) -> F:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


def choose_families(
    available: Mapping[str, F],
    difficulty: int | Sequence[int] | None = None,
    names: str | Sequence[str] | None = None,
    where: Mapping[str, str | Sequence[str] | None] | None = None,
) -> list[F]:
    """Return the families that match all criteria.

    Args:
        available: All families by name.
        difficulty: The level or levels; `None` for all.
        names: The names, which also set the order; `None` for all.
        where: Values of additional attributes, by attribute; `None` for all.

    Raises:
        UsageError: A value does not exist (the message suggests an existing one), or no family matches.
    """
    named = some_of("family", names, available)
    criteria = {"level": difficulty, **(where or {})}
    allowed = {attribute: _values_of(available, attribute, values) for attribute, values in criteria.items()}
    fitting = [
        available[name]
        for name in named
        if all(getattr(available[name], attribute) in values for attribute, values in allowed.items())
    ]
    if not fitting:
        criteria = {"name": names, **criteria}
        explicit = {attribute: values for attribute, values in criteria.items() if values is not None}
        choices = ", ".join(f"{_noun(attribute)} {values!r}" for attribute, values in explicit.items())
        raise UsageError(f"no family fits all of this at once: {choices}")
    return fitting


def by_difficulty(families: Iterable[F]) -> list[F]:
    """Return families sorted by level, easiest first; families of one level keep their order."""
    return sorted(families, key=lambda family: family.level)


def by_level(families: Iterable[F]) -> list[list[str]]:
    """Return the names of families, grouped by level, easiest first."""
    levels: dict[int, list[str]] = {}
    for family in by_difficulty(families):
        levels.setdefault(family.level, []).append(family.name)
    return list(levels.values())


def _values_of(families: Mapping[str, Family[Any, Any]], attribute: str, choice: Any) -> tuple[Any, ...]:
    """Return the chosen values of an attribute, or all existing values."""
    return some_of(_noun(attribute), choice, sorted({getattr(family, attribute) for family in families.values()}))


def _noun(attribute: str) -> str:
    """Return the user-facing name of an attribute."""
    return {"name": "family", "level": "difficulty"}.get(attribute, attribute)


SEED_DIGITS: Mapping[str, Sequence[int]] = {TRAIN: (0, 1, 2, 3, 4, 5, 6, 7), VALIDATION: (8,), TEST: (9,)}
"""Last digits of the seeds of each split, for sources whose seeds generate whole worlds."""


def divide(items: Iterable[T], held_out: Callable[[T], bool]) -> dict[str, tuple[T, ...]]:
    """Return the items that each split draws from, without empty splits.

    Args:
        items: Items that tasks are drawn from, such as families or databases.
        held_out: Whether an item belongs to `test_unseen` alone. The other splits draw from all other items.
    """
    items = tuple(items)
    ordinary = tuple(item for item in items if not held_out(item))
    unseen = tuple(item for item in items if held_out(item))
    return {**(dict.fromkeys(SHARES, ordinary) if ordinary else {}), **({TEST_UNSEEN: unseen} if unseen else {})}


def must_belong(split: str, content: str) -> None:
    """Raise `NoFit` if a problem belongs to another split, so that no two splits share one.

    Args:
        split: The split that drew it. `test_unseen` accepts any problem, since it draws from its own items.
        content: Whatever makes two tasks the same problem; its hash decides.
    """
    if split != TEST_UNSEEN and split_of(content, SHARES) != split:
        raise NoFit


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
