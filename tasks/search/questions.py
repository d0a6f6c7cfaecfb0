"""Question families: their definition, and how functions register as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentgym import procedural
from agentgym.procedural import Families
from agentgym.tasks.search.features import Feature
from agentgym.tasks.search.scene import Scene


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


FAMILIES: Families[Family] = Families(Family)
"""Every family by name."""


def family(
    level: int, feature: Feature, *phrasings: str, name: str | None = None, plain: tuple[str, ...] = ()
) -> Callable[[Callable[[Scene], Draft]], Callable[[Scene], Draft]]:
    """Return a decorator that registers a function that draws questions, by default under the function's name."""
    return FAMILIES.register(level, *phrasings, name=name, feature=feature, plain=plain)
