"""Names of people and places for the bundled sites. The split of a site's seed decides which names it may use.

Seeds ending in 8 belong to validation, those ending in 9 to test. Each split has its own part of every list, so no
person on a training site ever appears on a test site.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from agentgym.core.task import TEST, TRAIN, VALIDATION
from agentgym.tasks.data_files import read_data

_KINDS = ("Street", "Street", "Road", "Lane", "Avenue", "Row")
_T = TypeVar("_T")


_NAMES: dict[str, list[str]] = read_data("web/sites", "names")
CITIES = tuple(_NAMES["cities"])
"""All cities; use `SiteWords.part` of this list."""


def seed_split(seed: int) -> str:
    """Return the split whose tasks may use sites with this seed."""
    return {8: VALIDATION, 9: TEST}.get(seed % 10, TRAIN)


def part_of(items: Sequence[_T], split: str) -> list[_T]:
    """Return the part of a list that belongs to a split: six tenths for training, two for each of the others."""
    tenths = {TRAIN: (0, 1, 2, 3, 4, 5), VALIDATION: (6, 7), TEST: (8, 9)}[split]
    return [item for number, item in enumerate(items) if number % 10 in tenths]


@dataclass(frozen=True)
class Person:
    """Somebody with an account on a site."""

    name: str
    username: str
    email: str


class SiteWords:
    """Draws names for one site. Never draws the same person twice."""

    def __init__(self, seed: int, rng: Random):
        split = seed_split(seed)
        self.split, self._rng = split, rng
        lists = {key: part_of(names, split) for key, names in _NAMES.items()}
        self._first, self._last = lists["first_names"], lists["last_names"]
        self._cities, self._streets = lists["cities"], lists["streets"]
        self._taken: set[str] = set()

    def person(self, domain: str = "example.test") -> Person:
        """Draw a new person."""
        while True:
            first, last = self._rng.choice(self._first), self._rng.choice(self._last)
            username = f"{plain(first)}.{plain(last)}"
            if username not in self._taken:
                self._taken.add(username)
                return Person(f"{first} {last}", username, f"{username}@{domain}")

    def people(self, count: int, domain: str = "example.test") -> list[Person]:
        """Draw several people, all different."""
        return [self.person(domain) for _ in range(count)]

    def city(self) -> str:
        """Draw a city."""
        return self._rng.choice(self._cities)

    def street(self) -> str:
        """Draw a street with a house number."""
        return f"{self._rng.randint(1, 180)} {self._rng.choice(self._streets)} {self._rng.choice(_KINDS)}"

    def postcode(self) -> str:
        """Draw a postcode of five digits."""
        return f"{self._rng.randrange(10000, 99999)}"

    def part(self, items: Sequence[_T]) -> list[_T]:
        """Return this split's part of a given list."""
        return part_of(items, self.split)


def plain(text: str) -> str:
    """Return text in lower-case ASCII letters and digits, as in user names and addresses."""
    spelled = text.replace("ø", "o").replace("Ø", "O").replace("ł", "l").replace("ı", "i").replace("ß", "ss")
    folded = unicodedata.normalize("NFKD", spelled).encode("ascii", "ignore").decode()
    return "".join(char for char in folded.lower() if char.isalnum())
