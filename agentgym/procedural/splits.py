"""Assigns problems to splits: by a hash of their content, with held-out content in `test_unseen` only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from agentgym.procedural.scene import NoFit
from agentgym.task import SHARES, TEST, TEST_UNSEEN, TRAIN, VALIDATION, split_of

T = TypeVar("T")

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
