"""Question families: their definition, and how functions register as one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from agentgym import procedural
from agentgym.procedural import Families, Wording
from agentgym.tasks.search.features import Feature
from agentgym.tasks.search.scene import Scene

_UNIVERSITY = re.compile(r"(?<!the )(?<!The )\b(University of [^\W\d_]|[^\W\d_]+ Academy of Sciences)")
_PLURAL = {"is": "are", "was": "were", "has": "have", "does": "do"}
_ASKED_DAYS = re.compile(rf"\b({'|'.join(_PLURAL)}) (the \S+ Days)\b", re.IGNORECASE)
_STATED_DAYS = re.compile(rf"(?<!of )\b(the \S+ Days) ({'|'.join(_PLURAL)})\b", re.IGNORECASE)
_BEGINNING = re.compile(r"(?:^|(?<=[.?!] )|(?<=[.?!:] \"))the ")


@dataclass(frozen=True)
class Draft:
    """A drawn question without its wording.

    Args:
        words: The values that the phrasings refer to.
        answers: Accepted answers, the canonical one first; empty if the pages do not state any.
        extra: Further entries of the gold.
    """

    words: Mapping[str, Any]
    answers: list[str]
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Family(procedural.Family[Scene, Draft]):
    """A kind of question."""

    feature: Feature

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of all questions of this family."""
        return (*super().tags, self.feature.value)

    def word(self, draft: Draft, rng: Random, wording: Wording = "natural") -> str:
        """Return the draft's text in a random phrasing, with names as a sentence has them."""
        return in_prose(super().word(draft, rng, wording))


FAMILIES: Families[Family] = Families(Family)
"""Every family by name."""


def in_prose(text: str) -> str:
    """Return a question with its names in English: `the University of X`, `Where are the X Days?`, `The X Fair was`."""
    text = _UNIVERSITY.sub(r"the \1", text)
    text = _ASKED_DAYS.sub(lambda found: f"{_plural(found[1])} {found[2]}", text)
    text = _STATED_DAYS.sub(lambda found: f"{found[1]} {_plural(found[2])}", text)
    return _BEGINNING.sub("The ", text)


def _plural(verb: str) -> str:
    many = _PLURAL[verb.lower()]
    return many.capitalize() if verb[0].isupper() else many


def family(
    level: int, feature: Feature, *phrasings: str, name: str | None = None, plain: tuple[str, ...] = ()
) -> Callable[[Callable[[Scene], Draft]], Callable[[Scene], Draft]]:
    """Return a decorator that registers a function that draws questions, by default under the function's name."""
    return FAMILIES.register(level, *phrasings, name=name, feature=feature, plain=plain)
