"""Searches for a solution of an episode by replaying it, if there are few actions and the seed makes it repeatable."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from agentgym.interop.gym.showing import text_of_value

_MOST_CHOICES = 32
_MOST_STEPS = 5_000
"""Maximum steps of the environment, for each of the two ways to distinguish states."""


def choices(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return all arguments that a schema allows; an empty list if there are too many."""
    options = {name: _values(part) for name, part in schema["properties"].items()}
    count = 1
    for values in options.values():
        count *= len(values)
    if count > _MOST_CHOICES:
        return []
    return [dict(zip(options, values, strict=True)) for values in product(*options.values())]


def _values(schema: Mapping[str, Any]) -> Sequence[Any]:
    if "enum" in schema:
        return schema["enum"]
    length = schema.get("minItems")
    if "items" not in schema or length is None or length != schema.get("maxItems"):
        return ()
    inner = _values(schema["items"])
    return [list(values) for values in product(inner, repeat=length)] if len(inner) ** length <= _MOST_CHOICES else ()


@dataclass
class _Search:
    """A breadth-first search. It replays the episode up to each state, since foreign objects may not be copyable."""

    begin: Callable[[int], Any]
    advance: Callable[[Any], tuple[Any, float, bool, bool, bool]]
    actions: Sequence[Any]
    seed: int
    by_depth: bool
    """Whether the same observation at another depth counts as another state, because of randomness."""
    steps: int = 0

    def run(self) -> list[int] | None:
        """Return the indices of the actions that solve the episode."""
        queue: deque[list[int]] = deque([[]])
        visited = {self._key(self.begin(self.seed), 0)}
        while queue and self.steps < _MOST_STEPS:
            path = queue.popleft()
            for place in range(len(self.actions)):
                observation, over, solved = self._after([*path, place])
                if solved:
                    return [*path, place]
                if not over and (key := self._key(observation, len(path) + 1)) not in visited:
                    visited.add(key)
                    queue.append([*path, place])
        return None

    def _after(self, path: Sequence[int]) -> tuple[Any, bool, bool]:
        self.begin(self.seed)
        self.steps += len(path)
        observation, over, solved = None, False, False
        for place in path:
            observation, _, terminated, truncated, solved = self.advance(self.actions[place])
            if over := terminated or truncated:
                break
        return observation, over, solved

    def _key(self, observation: Any, depth: int) -> tuple[str, int]:
        return text_of_value(observation), depth if self.by_depth else 0


_CACHED = 512


class Plans:
    """A cache of plans, since a search takes much longer than playing its result."""

    def __init__(self) -> None:
        self._cache: OrderedDict[Hashable, list[int] | None] = OrderedDict()

    def get(self, key: Hashable, find: Callable[[], list[int] | None]) -> list[int] | None:
        """Return the cached plan of a key, or call `find` and cache its result."""
        if key not in self._cache:
            self._cache[key] = find()
            if len(self._cache) > _CACHED:
                self._cache.popitem(last=False)
        return self._cache[key]


def find_plan(
    begin: Callable[[int], Any],
    advance: Callable[[Any], tuple[Any, float, bool, bool, bool]],
    actions: Sequence[Any],
    seed: int,
) -> list[int] | None:
    """Return the indices in `actions` of a solution of the seed's episode; `None` if the search found no solution.

    Args:
        begin: Resets the environment with a seed and returns the observation.
        advance: Steps it; returns observation, reward, terminated, truncated and whether it is solved.
        actions: The actions to choose from.
        seed: The seed.
    """
    if not actions:
        return None
    for by_depth in (False, True):
        if (plan := _Search(begin, advance, actions, seed, by_depth).run()) is not None:
            return plan
    return None
