"""Question families: what one is and how it is registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentgym.tasks.search.scene import Scene


class Feature(StrEnum):
    """What a family is a test of; tasks carry these as tags."""

    LOOKUP = "lookup"
    CHAIN = "chain"
    COMPARISON = "comparison"
    AGGREGATION = "aggregation"
    TEMPORAL = "temporal"
    NAMESAKE = "namesake"
    ALIAS = "alias"
    STALE = "stale"
    INJECTION = "injection"
    UNANSWERABLE = "unanswerable"
    NO_SEARCH = "no_search"
    MASKED = "masked"


class NoFit(Exception):
    """The family cannot be asked of what was drawn; draw again."""


@dataclass(frozen=True)
class Draft:
    """A drawn question whose wording is still to be chosen.

    Args:
        words: What the phrasings refer to.
        answers: Accepted answers, the canonical one first; none where the pages do not say.
        extra: Further entries of the gold.
    """

    words: Mapping[str, Any]
    answers: list[str]
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Family:
    """A kind of question: draws a `Draft` from a scene and words it in one of several ways."""

    name: str
    level: int
    feature: Feature
    phrasings: tuple[str, ...]
    draw: Callable[[Scene], Draft] = field(compare=False)


FAMILIES: dict[str, Family] = {}
"""Every family by name."""


def register(
    name: str, level: int, feature: Feature, phrasings: tuple[str, ...], draw: Callable[[Scene], Draft]
) -> None:
    """Add a family to `FAMILIES`."""
    FAMILIES[name] = Family(name, level, feature, phrasings, draw)


def family(
    level: int, feature: Feature, *phrasings: str
) -> Callable[[Callable[[Scene], Draft]], Callable[[Scene], Draft]]:
    """Register a function that draws questions, under its own name."""

    def decorate(draw: Callable[[Scene], Draft]) -> Callable[[Scene], Draft]:
        register(draw.__name__, level, feature, phrasings, draw)
        return draw

    return decorate
