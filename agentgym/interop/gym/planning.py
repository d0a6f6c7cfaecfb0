"""Finds a way to solve an episode of an environment by trying, if it has few actions and the same seed repeats it."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from agentgym.interop.gym.showing import text_of_value

_MOST_CHOICES = 32
_MOST_STEPS = 5_000
"""Steps of the environment after which the search gives up, for each of the two ways to tell states apart."""


def choices(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return all arguments that a schema allows, or none if they are too many to try."""
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
    return [list(one) for one in product(inner, repeat=length)] if len(inner) ** length <= _MOST_CHOICES else ()


@dataclass
class _Search:
    """A breadth-first search that replays the episode up to each state; copies of foreign objects may share some."""

    begin: Callable[[int], Any]
    advance: Callable[[Any], tuple[Any, float, bool, bool, bool]]
    actions: Sequence[Any]
    seed: int
    by_depth: bool
    """Whether a state seen again later is another one, since chance may treat it differently."""
    steps: int = 0

    def run(self) -> list[int] | None:
        """Return the places of the actions that solve the episode."""
        queue: deque[list[int]] = deque([[]])
        seen = {self._key(self.begin(self.seed), 0)}
        while queue and self.steps < _MOST_STEPS:
            path = queue.popleft()
            for place in range(len(self.actions)):
                observation, over, solved = self._after([*path, place])
                if solved:
                    return [*path, place]
                if not over and (key := self._key(observation, len(path) + 1)) not in seen:
                    seen.add(key)
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


_REMEMBERED = 512


class Plans:
    """Remembers what was found: a search takes much longer than to play what it finds."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, list[int] | None] = OrderedDict()

    def get(self, key: Hashable, find: Callable[[], list[int] | None]) -> list[int] | None:
        """Return what is remembered under a key, or what `find` returns now."""
        if key not in self._known:
            self._known[key] = find()
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return self._known[key]


def find_plan(
    begin: Callable[[int], Any],
    advance: Callable[[Any], tuple[Any, float, bool, bool, bool]],
    actions: Sequence[Any],
    seed: int,
) -> list[int] | None:
    """Return the places in `actions` of those that solve the episode of a seed; `None` if none were found.

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
