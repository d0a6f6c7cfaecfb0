"""The people, companies and days of the office sites (mail, admin, calendar).

As in real address books, some people are easily mistaken for each other.
"""

from __future__ import annotations

import datetime
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from agentgym.tasks.web.sites.words import SiteWords, plain

COMPANY_HEADS = (
    "Albatros", "Alder", "Amber", "Atlas", "Birch", "Blue Harbour", "Brightwater", "Café Row", "Cobalt", "Delta",
    "Ember", "Fairway", "Granite", "Halcyon", "Harrow", "Iris", "Juniper", "Kestrel", "Lumen", "Marlow", "Meridian",
    "Nordic", "Northwind", "Northwood", "Oakfield", "Oakford", "Orbit", "Pelican", "Quarry", "Redwood", "Saffron",
    "Silverline", "Silverlake", "Summit", "Tandem", "Umbra", "Vega", "Vesta", "Westbrook", "Zephyr",
)  # fmt: skip
COMPANY_TAILS = (
    "& Sons", "Bakery", "Consulting", "Design", "Foods", "GmbH", "Joinery", "Logistics", "Ltd", "Print", "S.A.",
    "Software", "Supplies", "Systems", "Trading", "Travel",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_NEIGHBOUR_SHARE = 0.3
"""Share of people and companies whose name differs from another's in one part only."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Contact:
    """Somebody with a name, a mail address and a phone number, all of them unique among those drawn together."""

    name: str
    address: str
    phone: str

    @property
    def given(self) -> str:
        """The given name."""
        return self.name.split(" ")[0]


def draw_contacts(words: SiteWords, rng: Random, count: int, domains: Sequence[str]) -> list[Contact]:
    """Draw people at the given mail domains; some share a given or a family name."""
    names: dict[str, str] = {}
    while len(names) < count:
        name = words.person().name
        if names and rng.random() < _NEIGHBOUR_SHARE:
            first, family = rng.sample((name, rng.choice(list(names.values()))), 2)
            name = f"{first.split(' ')[0]} {family.split(' ', 1)[1]}"
        names.setdefault(local_part(name), name)
    phones = rng.sample(range(1000), count)
    return [
        Contact(name, f"{local}@{rng.choice(domains)}", f"+44 20 7946 {phone:04}")
        for (local, name), phone in zip(names.items(), phones, strict=True)
    ]


def draw_companies(words: SiteWords, rng: Random, count: int) -> list[str]:
    """Draw company names without duplicates; some differ in their last word only."""
    heads = words.part(COMPANY_HEADS)
    used: list[str] = []
    names: dict[str, None] = {}
    while len(names) < count:
        head = rng.choice(used if used and rng.random() < _NEIGHBOUR_SHARE else heads)
        used.append(head)
        names[f"{head} {rng.choice(COMPANY_TAILS)}"] = None
    return list(names)


def local_part(name: str) -> str:
    """Return a name as the local part of a mail address: `Zoë O'Neill` gives `zoe.oneill`."""
    return ".".join(filter(None, map(plain, name.split())))


def skewed(rng: Random, choices: Sequence[_T], count: int, skew: float = 0.8) -> list[_T]:
    """Draw `count` choices with repetition; the first choices are the most frequent, as in real data."""
    return rng.choices(choices, [1 / (rank + 1) ** skew for rank in range(len(choices))], k=count)


def long_date(day: datetime.date) -> str:
    """Return a day as `Tuesday, 4 March 2025`, whatever the locale."""
    return f"{WEEKDAYS[day.weekday()]}, {day.day} {MONTHS[day.month - 1]} {day.year}"


def fold(text: str) -> str:
    """Return text normalised for searching: in lower case, without accents."""
    decomposed = unicodedata.normalize("NFKD", text.replace("ø", "o").replace("Ø", "o").replace("ı", "i"))
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter)).casefold()


def same_site(path: str, otherwise: str) -> str:
    """Return the path that a form sent to go back to if it stays on this site, else `otherwise`."""
    safe = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
    return path if safe else otherwise
