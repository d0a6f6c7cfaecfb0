"""A world under construction: its content so far, and the random draws of its builders."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, TypeVar

from agentgym.tasks.search.entities import Entity, EntityKind, Term
from agentgym.tasks.search.names import TONGUES, NameShape, Tongue, WordSource
from agentgym.tasks.search.vocabulary import PRESENT

T = TypeVar("T")


class Builder:
    """Holds the entities of a world while its builders add to them.

    Args:
        rng: The source of all randomness.
        residue: Residue of the world's words.
        scale: Size of the world; 1 gives about fifteen thousand passages.
    """

    def __init__(self, rng: Random, residue: int, scale: float):
        self.rng, self.scale = rng, scale
        self.words = WordSource(rng, residue)
        self.by_type: dict[str, list[Entity]] = {}
        self.tongues: dict[str, Tongue] = {}
        """Tongue of each country, by its id."""
        self.people: dict[str, list[Entity]] = {}
        """People of each country, by its id."""
        self.bearers: dict[str, list[Entity]] = {}
        """People by surname."""

    def add(self, kind: EntityKind, type_: str, name: str, **facts: Any) -> Entity:
        """Add an entity. Facts that are `None` are not stated anywhere."""
        siblings = self.by_type.setdefault(type_, [])
        stated = {relation: value for relation, value in facts.items() if value is not None}
        siblings.append(Entity(f"{type_}-{len(siblings):04d}", kind, type_, name, stated))
        return siblings[-1]

    def of(self, *types: str) -> list[Entity]:
        """Return the entities of some types so far."""
        return [entity for type_ in types for entity in self.by_type.get(type_, ())]

    def count(self, number: float) -> int:
        """Return the number of things in a world of this size, given their number in a world of size 1."""
        return max(1, round(number * self.scale))

    def per_country(self, number: float) -> int:
        """Return the number of things per country, given their total in a world of size 1."""
        return max(2, round(number * self.scale / len(self.by_type["country"])))

    def chance(self, share: float) -> bool:
        """Return True with a probability of `share`."""
        return self.rng.random() < share

    def maybe(self, share: float, value: T) -> T | None:
        """Return the value with a probability of `share`, else `None`."""
        return value if self.rng.random() < share else None

    def pick(self, items: Sequence[T]) -> T:
        """Return a random item."""
        return items[int(self.rng.random() * len(items))]

    def sample(self, items: Sequence[T], number: int) -> list[T]:
        """Return that many random items, or all if there are fewer."""
        return self.rng.sample(items, min(number, len(items)))

    def between(self, low: int, high: int) -> int:
        """Return a random number from `low` to `high`."""
        return low + int(self.rng.random() * (high - low + 1))

    def date(self, year: int) -> datetime.date:
        """Return a random date in a year."""
        return datetime.date(year, 1, 1) + datetime.timedelta(days=self.between(0, 364))

    def word(self, country: Entity | None = None, shape: NameShape = NameShape.ANY) -> str:
        """Return a new word in the tongue of a country (in a random tongue by default)."""
        return self.words.new(self.tongues[country.id] if country else self.pick(TONGUES), shape)

    def adult(self, year: int, country: Entity | None = None, occupations: Iterable[str] = ()) -> Entity | None:
        """Return somebody who was 26 to 60 years old in a year and lived through the next, or `None`."""
        allowed = set(occupations)
        pool = self.people[country.id] if country else self.of("person")
        for _ in range(40):
            person = self.pick(pool)
            if allowed and person.facts["occupation"] not in allowed:
                continue
            if year - 60 <= person.facts["birth_date"].year <= year - 26 and last_year(person) > year:
                return person
        return None

    def terms(self, country: Entity, start: int, number: int, holder_ids: set[str]) -> list[Term]:
        """Return up to `number` consecutive terms of an office, each of a person who has not held it yet."""
        terms: list[Term] = []
        for _ in range(number):
            end = start + self.between(3, 14)
            person = self.adult(start, country) if end < PRESENT else None
            if person is None or person.id in holder_ids or last_year(person) < end:
                continue
            holder_ids.add(person.id)
            terms.append(Term(person, start, end))
            start = end
        return terms


def last_year(person: Entity) -> int:
    """Return the year of a person's death, or the present."""
    death = person.facts.get("death_date")
    return death.year if death else PRESENT


def country_of(entity: Entity) -> Entity:
    """Return the country of a place, of a person's birth, or of the place where something is."""
    while entity.type != "country":
        facts = entity.facts
        entity = next(facts[key] for key in ("country", "region", "birth_place", "place") if key in facts)
    return entity
