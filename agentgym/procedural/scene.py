"""`Scene`, the source of randomness for families, and `NoFit`, raised when nothing can be drawn."""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import TypeVar

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
