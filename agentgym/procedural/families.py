"""Families by name: functions register here, and users select among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from agentgym.choices import some_of
from agentgym.errors import UsageError
from agentgym.procedural.family import Family

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
