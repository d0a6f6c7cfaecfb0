"""Watch the state that a whole process shares while an environment is played. Depends on no check."""

from __future__ import annotations

import locale
import logging
import os
import pickle
import random
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from agentgym.check.adversaries import action_text
from agentgym.check.play import difference, short
from agentgym.core.env import Env

ENVIRON, FOLDER, STDOUT = "os.environ", "the working directory", "standard output"
RNGS = ("the module 'random'", "the module 'numpy.random'")


@dataclass(frozen=True)
class StateChange:
    """A change to shared state: what changed, where first, and how."""

    what: str
    where: str
    how: str


@dataclass(frozen=True)
class _Shared:
    """A piece of state that the whole process shares: how to read it and how to restore it."""

    read: Callable[[], Any]
    set: Callable[[Any], Any] | None = None


def _set_environ(values: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(values)


def _numpy_state() -> bytes:
    return pickle.dumps(np.random.get_state(legacy=False))


def _set_signals(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _set_root_logger(settings: tuple[int, list[logging.Handler]]) -> None:
    logging.root.setLevel(settings[0])
    logging.root.handlers[:] = settings[1]


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
_ONCE: dict[str, _Shared] = {
    ENVIRON: _Shared(lambda: dict(os.environ), _set_environ),
    FOLDER: _Shared(os.getcwd, os.chdir),
    "the recursion limit": _Shared(sys.getrecursionlimit, sys.setrecursionlimit),
    "the locale": _Shared(lambda: locale.setlocale(locale.LC_ALL), lambda name: locale.setlocale(locale.LC_ALL, name)),
    "the default socket timeout": _Shared(socket.getdefaulttimeout, socket.setdefaulttimeout),
    "a signal handler": _Shared(lambda: {number: signal.getsignal(number) for number in _SIGNALS}, _set_signals),
    "the root logger": _Shared(lambda: (logging.root.level, [*logging.root.handlers]), _set_root_logger),
    "numpy's error settings": _Shared(np.geterr, lambda settings: np.seterr(**settings)),
}
"""State that a library may set on first use: a change counts only if it occurs again after being restored."""

_GENERATORS: dict[str, _Shared] = {
    RNGS[0]: _Shared(random.getstate, random.seed),
    RNGS[1]: _Shared(_numpy_state, np.random.seed),
}
"""Global generators. After a change each gets a new state, so that setting the same seed again is detected."""

_OUR_SEEDS = 4_242_000

_SET_UP = 1
"""Number of changes to a generator that are tolerated: a library may draw from it on first use."""


class ProcessWatch:
    """Inspects the process after every turn. Make one per process: it redirects standard output to a file."""

    def __init__(self) -> None:
        self.changes: dict[str, StateChange] = {}
        self._draws: dict[str, list[StateChange]] = {rng: [] for rng in RNGS}
        self._written = tempfile.TemporaryFile()  # noqa: SIM115 (open until the process exits)
        sys.stdout.flush()
        os.dup2(self._written.fileno(), 1)
        sys.stdout = open(1, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
        self._moves: list[str] = []
        sys.addaudithook(self._hear)
        self._first = self._last = self._state()

    def look(self, where: Callable[[], str] | None) -> None:
        """Record what has changed since the last look, and where; with `None`, only update the reference state."""
        state, before = self._state(), self._last
        moves = self._moves.copy()
        self._moves.clear()
        self._last = state
        if where is None:
            return
        for what, value in state.items():
            if value == before[what]:
                continue
            if what in _GENERATORS:
                self._note_draw(what, where())
            else:
                self._note(what, where(), self._how(what, before[what], value))
        if moves and state[FOLDER] == before[FOLDER]:
            self._note(FOLDER, where(), f"for a while to {short(moves[0])}")

    def confirm(self, play_again: Callable[[], object]) -> None:
        """Drop changes that occur only once: restore the state, play again, and keep what changes again."""
        doubtful = set(self.changes) & set(_ONCE)
        if not doubtful:
            return
        certain = {what: change for what, change in self.changes.items() if what not in doubtful}
        for what, shared in _ONCE.items():
            if what in doubtful and shared.set is not None:
                shared.set(self._first[what])
        self.changes = {}
        self.look(None)
        play_again()
        self.changes = {**certain, **{what: change for what, change in self.changes.items() if what in doubtful}}

    def _note_draw(self, rng: str, where: str) -> None:
        draws, generator = self._draws[rng], _GENERATORS[rng]
        draws.append(StateChange(rng, where, ""))
        if len(draws) > _SET_UP:
            self.changes.setdefault(rng, draws[_SET_UP])
        if generator.set is not None:
            generator.set(_OUR_SEEDS + len(draws))
        self._last[rng] = generator.read()

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.chdir":
            self._moves.append(str(arguments[0]))

    def _state(self) -> dict[str, Any]:
        with suppress(ValueError, OSError):  # the stream may be replaced or closed
            sys.stdout.flush()
        state = {what: shared.read() for what, shared in {**_ONCE, **_GENERATORS}.items()}
        return {**state, STDOUT: os.fstat(self._written.fileno()).st_size}

    def _how(self, what: str, before: Any, after: Any) -> str:
        if what == STDOUT:
            return short(os.pread(self._written.fileno(), 200, before).decode(errors="replace"))
        if what == ENVIRON:
            names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
            return ", ".join(names)
        return difference(str(before), str(after))

    def _note(self, what: str, where: str, how: str) -> None:
        self.changes.setdefault(what, StateChange(what, where, how))


class WatchedEnv:
    """A wrapper around an environment that looks at the process after every reset and step."""

    def __init__(self, env: Env, watch: ProcessWatch):
        self._env, self._watch = env, watch
        self._turn = 0
        self._task = ""

    @classmethod
    def around(cls, env: Env, watch: ProcessWatch) -> Env:
        """Wrap an environment so that `watch` looks after every reset and step."""
        return cast(Env, cls(env, watch))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def reset(self, **kwargs: Any) -> Any:
        """Reset the environment, then look."""
        self._watch.look(None)
        self._turn, self._task = 0, kwargs["options"]["task"].id
        try:
            return self._env.reset(**kwargs)
        finally:
            self._watch.look(lambda: f"task {self._task!r}, the opening")

    def step(self, action: Any) -> Any:
        """Step the environment, then look."""
        self._turn += 1
        try:
            return self._env.step(action)
        finally:
            self._watch.look(lambda: f"task {self._task!r}, turn {self._turn}, {action_text(self._env, action)}")
