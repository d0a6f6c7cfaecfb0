"""`Randomness`: gives each environment's foreign code its own state of the global random generators."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

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
