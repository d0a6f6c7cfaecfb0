"""`Wrapped`: the base of adapters for other packages' environments."""

from __future__ import annotations

import copy
import os
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from agentgym.base.errors import AgentGymError, InfrastructureError
from agentgym.core.env import Env
from agentgym.core.foreign import describe, place_of
from agentgym.core.task import TEST, TRAIN, VALIDATION, GeneratedTasks, Task


class Caveat(NamedTuple):
    """A weakness of an environment of another package."""

    check: str | None
    """The guarantee of `agentgym check` that fails; `None` for a mere remark."""
    why: str
    """The package's fault or gap."""

    def __str__(self) -> str:
        return self.why if self.check is None else f"{self.check}: {self.why}"


_lock = threading.RLock()
"""Held while foreign code runs with swapped-in generators, since the process has only one of each."""

_NUMPY_SEEDS = 2**32


class Randomness:
    """The states of `random` and `numpy.random` for one environment's foreign code.

    Only one environment that uses it can run at a time in a process.
    """

    def __init__(self) -> None:
        self._inside: tuple[Any, Any] | None = None
        self._is_in = False

    def seed(self, seed: int) -> None:
        """Seed both generators as `random.seed` and `numpy.random.seed` do."""
        legacy = np.random.RandomState(seed % _NUMPY_SEEDS)
        self._inside = random.Random(seed).getstate(), legacy.get_state()
        if self._is_in:
            _set(self._inside)

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Swap these generators in for the block and restore the process's own afterwards. Blocks may be nested."""
        with _lock:
            if self._is_in:
                yield
                return
            self._is_in = True
            outside = random.getstate(), np.random.get_state()
            if self._inside is not None:
                _set(self._inside)
            try:
                yield
            finally:
                self._is_in = False
                self._inside = random.getstate(), np.random.get_state()
                _set(outside)


def _set(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])


def _after_fork_in_child() -> None:
    """Replace the lock: one that another thread held at the fork would never be released in the child."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork_in_child)


FIRST_SEED = {TRAIN: 0, VALIDATION: 2**30, TEST: 2**31}
"""The first seed of each split. They are far apart, and far below 2**32, the limit of NumPy's seeds."""
_TURNS = 8
"""Turns played to test whether randomness follows from the seed."""
_SEEDS = 4
"""Seeds used in each test."""


def seed_tasks(name: str, prompt: str) -> GeneratedTasks:
    """Return an endless source of tasks that differ only in `data["seed"]`.

    Args:
        name: Prefix of the task ids.
        prompt: The prompt of all tasks.
    """
    return GeneratedTasks(name, partial(_task, name, prompt), dict.fromkeys(FIRST_SEED))


def _task(name: str, prompt: str, split: str, index: int) -> Task:
    return Task(f"{name}/{split}/{index}", split, prompt, data={"seed": FIRST_SEED[split] + index})


def seed_caveats(opening: Callable[[int], str], *, ignored: str, alike: str) -> list[Caveat]:
    """Begin episodes of a few seeds, twice each, and return caveats about the openings.

    Args:
        opening: Returns the opening of a seed's episode.
        ignored: The caveat if a seed has different openings.
        alike: The caveat if all seeds have the same opening.
    """
    seeds = range(FIRST_SEED[TRAIN], FIRST_SEED[TRAIN] + _SEEDS)
    openings = list(map(opening, seeds))
    if list(map(opening, seeds)) != openings:
        return [Caveat("seed-honoured", ignored)]
    return [Caveat(None, alike)] if len({*openings}) == 1 else []


def chance_caveats(env: Env) -> list[Caveat]:
    """Play the same random calls twice in fresh copies of an environment, and return a caveat if the answers differ.

    Args:
        env: An environment with `seed_tasks`.
    """
    if any(_trace(env, index) != _trace(env, index) for index in range(_SEEDS)):
        return [Caveat("deterministic", "what happens after the beginning does not follow from the seed")]
    return []


def _trace(env: Env, index: int) -> list[object]:
    """Return the observations and rewards of the first turns of an episode with random calls."""
    with closing(copy.copy(env)) as fresh:
        trace: list[object] = []
        try:
            trace.append(fresh.reset(seed=0, options={"split": TRAIN, "index": index})[0])
            fresh.action_space.seed(index)
            for _ in range(_TURNS):
                result = fresh.step(fresh.action_space.sample())
                trace.append((result.observation, result.reward))
                if result.terminated or result.truncated:
                    break
        except InfrastructureError as error:
            trace.append(describe(error))
        return trace


def unpacked(make: Callable[..., Any]) -> Any:
    """Return the function or class behind a callable: that in a `functools.partial`, or an object's class."""
    while isinstance(make, partial):
        make = make.func
    return make if hasattr(make, "__name__") else type(make)


class Wrapped(Env):
    """An environment whose episodes another package plays.

    Copying and pickling make it anew from its arguments, since foreign objects can rarely be pickled.
    """

    _made_with: tuple[tuple[Any, ...], Mapping[str, Any]]
    _randomness: Randomness

    def __new__(cls, *args: Any, **kwargs: Any):
        """Remember the arguments."""
        instance = super().__new__(cls)
        instance._made_with = args, kwargs
        instance._randomness = Randomness()
        return instance

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, (type(self), *self._made_with)

    def caveats(self) -> tuple[Caveat, ...]:
        """Return the guarantees of `agentgym check` that the wrapped environment breaks, and other remarks.

        They are tested where possible, so this may start a few episodes.
        """
        return ()

    @contextmanager
    def _foreign(self, what: str) -> Iterator[None]:
        """Run foreign code with its own random generators. Its exceptions become `InfrastructureError`s.

        Args:
            what: Names the operation in the error, e.g. `"FrozenLake-v1: step"`.
        """
        with self._randomness.swapped_in():
            try:
                yield
            except AgentGymError:
                raise
            except Exception as error:
                raise InfrastructureError(f"{what}: {describe(error)}{place_of(error)}") from error


def _make(kind: type[Wrapped], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Wrapped:
    return kind(*args, **kwargs)
