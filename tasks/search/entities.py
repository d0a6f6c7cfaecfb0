"""The content of a world: entities with typed facts, and how their values are written."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_WITH_ARTICLE = ("prize", "battle", "election", "expedition", "festival")
_SMALL = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


class EntityKind(StrEnum):
    """The broad kind of an entity, as pages state it."""

    PERSON = "person"
    PLACE = "place"
    WORK = "work"
    ORGANISATION = "organisation"
    EVENT = "event"


@dataclass(slots=True, eq=False)
class Entity:
    """A thing with pages of its own."""

    id: str
    kind: EntityKind
    type: str
    """The narrow kind: person, settlement, novel, company, battle and so on."""
    name: str
    facts: dict[str, Any] = field(default_factory=dict)
    """Relation to value: an entity, a list of entities, a list of terms or awards, a date, a number or text."""
    qualifier: str = ""
    """The word that distinguishes it from a namesake, e.g. `botanist`; empty for most."""
    aliases: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The name used in the titles of pages."""
        return f"{self.name} ({self.qualifier})" if self.qualifier else self.name

    @property
    def mention(self) -> str:
        """The name used in a sentence; it is unambiguous."""
        if self.qualifier:
            return f"the {self.qualifier} {self.name}"
        return f"the {self.name}" if self.type in _WITH_ARTICLE else self.name

    def __repr__(self) -> str:
        return f"<{self.id} {self.title}>"


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A person's time in an office, from the start of one year to the start of another."""

    person: Entity
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Award:
    """A prize given in a year."""

    winner: Entity
    year: int


@dataclass(frozen=True, slots=True)
class Count:
    """A quantity, written with thousands separators; years are plain numbers."""

    value: int


def say(value: Any) -> str:
    """Return a value as pages and canonical answers write it."""
    if isinstance(value, Entity):
        return value.mention
    if isinstance(value, Count):
        return f"{value.value:,}"
    if isinstance(value, datetime.date):
        return f"{value.day} {MONTHS[value.month - 1]} {value.year}"
    if isinstance(value, Term):
        return f"{value.person.mention} from {value.start} to {value.end}"
    if isinstance(value, Award):
        return f"{value.winner.mention} in {value.year}"
    if isinstance(value, list):
        return enumeration([say(item) for item in value])
    return str(value)


def enumeration(items: Sequence[str], last: str = "and") -> str:
    """Return `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"


def capitalized(text: str) -> str:
    """Return the text with a capital first letter; the rest stays as it is."""
    return text[0].upper() + text[1:]


def answers_for(value: Any) -> list[str]:
    """Return the accepted ways to write a value as an answer, the canonical one first."""
    if isinstance(value, Entity):
        return list(dict.fromkeys([value.name, value.title, value.mention, *value.aliases]))
    if isinstance(value, Count):
        return list(dict.fromkeys([f"{value.value:,}", str(value.value)]))
    if isinstance(value, datetime.date):
        month = MONTHS[value.month - 1]
        return [say(value), f"{month} {value.day}, {value.year}", f"{month} {value.day} {value.year}", str(value)]
    return [str(value)]


def answers_for_number(number: int) -> list[str]:
    """Return the accepted ways to write a small number that was counted or calculated."""
    return [str(number), *([_SMALL[number]] if 0 <= number < len(_SMALL) else [])]


def year_of(value: Any) -> int:
    """Return the year of a date; a year is returned as it is."""
    return value.year if isinstance(value, datetime.date) else int(value)
