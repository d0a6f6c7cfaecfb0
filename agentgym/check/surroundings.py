"""Detect whether episodes depend on the state of their process or the clock, and which shared state they change.

The recorded episodes are replayed in forks of a fresh process: with the clock set to other days, each as the first of
its process, and one after another while the process is watched. Depends on no check; the checks in `process` read the
result.
"""

from __future__ import annotations

import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import time_machine

from agentgym.base.components import ENVIRONMENT_PACKAGES
from agentgym.check.holdings import can_fork, grown, in_fork, resources
from agentgym.check.hostile import some_hostile_actions
from agentgym.check.outcomes import Patience
from agentgym.check.play import (
    Broken,
    CheckedEpisode,
    canonical,
    difference,
    helpless_player,
    idle_player,
    play,
    random_player,
    replayed,
    solving_player,
)
from agentgym.check.probe import ProbeRequest, Surroundings, patience_s
from agentgym.check.subject import Subject
from agentgym.check.watch import ProcessWatch, WatchedEnv
from agentgym.core import registry
from agentgym.core.env import Env
from agentgym.core.foreign import describe
from agentgym.core.policy import ScriptedPlayer
from agentgym.core.task import Task

_CLOCK = frozenset({"time", "time_ns", "now", "utcnow", "today", "localtime", "gmtime", "strftime", "ctime", "asctime"})
_TIMERS = frozenset({"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "thread_time"})
_CHANCE = frozenset({"urandom", "getrandom", "uuid1", "uuid4", "token_hex", "token_bytes", "token_urlsafe", "randbits"})
_CLOCK_OWNERS = frozenset({"time", "time_machine", "datetime", "date"})
_REPR_CHARS = 20_000

_LIBRARY = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


@dataclass
class Clues:
    """Lines of an environment's code, in the form `file.py:12 calls time.time()`."""

    clock: list[str] = field(default_factory=list)
    """Lines that read the date or the time of day."""
    chance: list[str] = field(default_factory=list)
    """Lines that draw from the system's randomness or read a timer."""


def clues_while(work: Callable[[], object]) -> Clues:
    """Return the reads of clocks and randomness while `work` runs in this thread."""
    clues = Clues()

    def listen(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            _note(clues, frame, argument.__name__, _owner(argument))
        elif event == "call" and frame.f_back is not None and frame.f_code.co_name in _CLOCK | _CHANCE:
            _note(clues, frame.f_back, frame.f_code.co_name, frame.f_globals.get("__name__", ""))

    sys.setprofile(listen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return clues


def _owner(function: Any) -> str:
    """Return the name of the module or type that owns a built-in function."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type | ModuleType):
        return owner.__name__.rpartition(".")[2]
    return str(getattr(function, "__module__", None) or "")


def _note(clues: Clues, frame: FrameType, name: str, owner: str) -> None:
    if name in _CLOCK and owner.split(".")[0] in _CLOCK_OWNERS:
        lines = clues.clock
    elif name in _CHANCE or name in _TIMERS:
        lines = clues.chance
    else:
        return
    place = _own_line(frame)
    if place is not None and (line := f"{place} calls {name}()") not in lines:
        lines.append(line)


def _own_line(frame: FrameType | None) -> str | None:
    """Return the innermost line of the environment's own code, skipping library frames, or `None`."""
    while frame is not None:
        path, module = frame.f_code.co_filename, str(frame.f_globals.get("__name__", ""))
        of_core = module.startswith("agentgym") and not module.startswith(ENVIRONMENT_PACKAGES)
        if of_core or module == "__main__":
            return None
        is_library = path.startswith(_LIBRARY) and not module.startswith(ENVIRONMENT_PACKAGES)
        if not is_library and not path.startswith("<"):
            return f"{Path(path).name}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def class_state(kind: type[Env]) -> dict[str, str]:
    """Return the state held by an environment's classes and their modules: each value's repr by name."""
    state: dict[str, str] = {}
    own = kind.__mro__[: kind.__mro__.index(Env)]
    for cls in own:
        state |= {
            f"{cls.__name__}.{name}": _safe_repr(value) for name, value in vars(cls).items() if _is_state(name, value)
        }
    for name in {cls.__module__ for cls in own}:
        module = sys.modules.get(name)
        held: Mapping[str, Any] = vars(module) if module is not None else {}
        state |= {f"{name}.{key}": _safe_repr(value) for key, value in held.items() if _is_state(key, value)}
    return state


def _is_state(name: str, value: Any) -> bool:
    return not (name.startswith("__") or isinstance(value, type | ModuleType) or callable(value))


def _safe_repr(value: Any) -> str:
    try:
        return repr(value)[:_REPR_CHARS]
    except Exception:  # a repr is the author's code
        return "?"


CLOCKS = (datetime(2029, 2, 24, 3, 14, tzinfo=UTC), datetime(2031, 8, 13, 15, 52, tzinfo=UTC))
"""A Saturday night and a Wednesday afternoon, years apart."""

_SECONDS = 3.0
"""Maximum total duration, when recorded, of the episodes to replay under every clock."""

_FEWEST = 2

_ALONE_SECONDS = 6.0
"""Seconds after which no further episode is played as the first of a process, once `_FEWEST` were."""

_MORE_EPISODES, _MORE_SECONDS = 400, 0.7
"""Limits on additional watched episodes, which reveal effects that are rare or occur late."""

_SURE_EPISODES = 200
"""Additional episodes that are watched even if a busy machine makes them take longer than `_MORE_SECONDS`."""

_RECORDED_SECONDS = 6.0
"""Seconds after which no further recorded episodes are watched."""

_BAD_ACTIONS = 150

_LEAK = 30
"""Playing stops once this many threads, files or processes have leaked."""

_TASKS = 3
"""Tasks of each split that must be the same on every day."""


def surroundings(request: ProbeRequest) -> dict[str, Any] | None:
    """Return a `Surroundings` as data, or `None` on systems without `os.fork`."""
    return asdict(_SurroundingsProbe(request).conduct()) if can_fork() else None


class _SurroundingsProbe:
    """Plays all episodes in copies of this process."""

    def __init__(self, request: ProbeRequest):
        self._request, self._subject = request, Subject.of(request)
        self._episodes = _fast_episodes(request.episodes)
        self._patience_s = patience_s([*request.episodes, *request.stumbled])
        self._held = resources()

    def conduct(self) -> Surroundings:
        """Play the episodes and compare them."""
        on_other_days = [self._copy(lambda: self._on(CLOCKS[0]))]  # the copy also imports the environment on that day
        with suppress(Exception):  # an entry point that is a function is imported when it is called
            registry.class_of(self._request.target)
        on_other_days += [self._copy(lambda day=day: self._on(day)) for day in CLOCKS[1:]]
        today = self._copy(self._in_turn)
        alone = [today[1], *self._alone()]
        watched = self._copy(self._watched)
        result = Surroundings(changes=watched["changes"], episodes=watched["episodes"])
        result.by_history = self._by_history(alone, watched)
        result.clock = self._copy(lambda: clues_while(self._a_few).clock)
        self._judge_clock(result, today, on_other_days)
        return result

    def _alone(self) -> Iterator[list[str]]:
        """Yield traces of all episodes but one, each the first of its process; only a few if those are slow."""
        until = time.monotonic() + _ALONE_SECONDS
        for number, episode in enumerate(self._episodes[1:], start=1):
            if number >= _FEWEST and time.monotonic() > until:
                return
            yield self._copy(lambda episode=episode: self._trace(episode))

    def _copy(self, work: Callable[[], Any]) -> Any:
        return in_fork(work, self._patience_s)

    def _by_history(self, alone: Sequence[list[str]], watched: dict[str, Any]) -> str | None:
        """Compare episodes played first in their process with the same ones played after others."""
        for episode, first, after in zip(self._episodes, alone, watched["traces"], strict=False):
            if first != after and self._copy(lambda episode=episode: self._trace(episode)) == first:
                names = ", ".join(watched["class_state"][:3])
                where = f"task {episode.task.id!r} after {watched['episodes']} other episodes"
                return f"{where}: {_change(first, after)}{f'; meanwhile {names} changed' if names else ''}"
        return None

    def _judge_clock(
        self, result: Surroundings, today: Sequence[list[str]], on_other_days: Sequence[Sequence[list[str]]]
    ) -> None:
        """Compare today with other days. For episodes that vary anyway, the code must also read the clock."""
        differing = (
            (day, number)
            for day, then in zip(CLOCKS, on_other_days, strict=True)
            for number, trace in enumerate(then)
            if trace != today[number]
        )
        if (first := next(differing, None)) is None:
            return
        day, number = first
        clues = Clues(**self._copy(self._clues))
        if self._copy(self._in_turn) != today:
            result.chance = clues.chance
            if clues.chance or not clues.clock:
                return
        where = "the task source" if number == 0 else f"task {self._episodes[number - 1].task.id!r}"
        then = on_other_days[CLOCKS.index(day)][number]
        lines = f"; {', '.join(clues.clock[:3])}" if clues.clock else ""
        result.by_clock = f"{where} on {day:%A, %d %B %Y, %H:%M}: {_change(today[number], then)}{lines}"

    def _on(self, day: datetime) -> list[list[str]]:
        with time_machine.travel(day, tick=True):
            return self._in_turn()

    def _in_turn(self) -> list[list[str]]:
        """Return the first tasks, and the traces of the episodes played one after another."""
        tasks = self._tasks()
        with self._subject.env() as env:  # shared: some environments are slow to make
            return [tasks, *(_trace(env, episode) for episode in self._episodes)]

    def _tasks(self) -> list[str]:
        """Return the first tasks of every split, or the error that they raised."""
        try:
            with self._subject.env() as env:
                return [canonical([task.id, task.prompt, task.data, task.gold]) for task in _first_tasks(env)]
        except Exception as error:
            return [describe(error.__cause__ or error)]

    def _trace(self, episode: CheckedEpisode) -> list[str]:
        with self._subject.env() as env:
            return _trace(env, episode)

    def _a_few(self) -> None:
        """Play the first episodes, which is slow while the calls of functions are observed."""
        self._tasks()
        with self._subject.env() as env:
            for episode in self._episodes[:_FEWEST]:
                _trace(env, episode)

    def _clues(self) -> dict[str, Any]:
        return asdict(clues_while(self._in_turn))

    def _watched(self) -> dict[str, Any]:
        """Play all episodes and more while watching the process, then replay some of them."""
        watch = ProcessWatch()
        kind = registry.class_of(self._request.target)
        before = class_state(kind)
        played = self._play_all(watch)
        after = class_state(kind)
        traces = [self._trace(episode) for episode in self._episodes]
        watch.confirm(lambda: self._play_all(watch))
        return {
            "changes": {what: asdict(change) for what, change in watch.changes.items()},
            "class_state": sorted(name for name, value in after.items() if before.get(name) != value),
            "episodes": played,
            "traces": traces,
        }

    def _play_all(self, watch: ProcessWatch) -> int:
        watch.look(None)
        for _ in range(2):  # the first time may initialise libraries
            self._tasks()
            watch.look(lambda: "making it and its tasks")
        played = sum(play_some(watch) for play_some in (self._play_recorded, self._play_more, self._play_badly))
        watch.look(lambda: "closing it")
        return played

    def _play_recorded(self, watch: ProcessWatch) -> int:
        episodes = [*self._request.episodes, *self._request.stumbled]
        patience = Patience(_RECORDED_SECONDS)
        with self._subject.env() as env:
            for played, episode in enumerate(episodes):
                if patience.is_over or self._leaks():
                    return played
                with suppress(Broken):
                    replayed(WatchedEnv.around(env, watch), episode)
        return len(episodes)

    def _play_more(self, watch: ProcessWatch) -> int:
        """Play other tasks with the solution and the random player."""
        patience = Patience(_MORE_SECONDS)
        fewest, played = self._fewest_more(), 0
        with self._subject.env() as env:
            for task in self._more_tasks(env):
                for player in (solving_player, random_player):
                    with suppress(Broken):
                        play(WatchedEnv.around(env, watch), task, self._request.seed + played, player)
                    played += 1
                if (patience.is_over and played >= fewest) or played >= _MORE_EPISODES or self._leaks():
                    break
        return played

    def _fewest_more(self) -> int:
        """Return the minimum number of additional episodes on a busy machine; fewer if the fastest episode is slow."""
        fastest = min(episode.seconds for episode in self._request.episodes)
        return int(min(_SURE_EPISODES, _MORE_SECONDS / max(fastest, 1e-9)))

    def _play_badly(self, watch: ProcessWatch) -> int:
        """Play one task with hostile actions, and with the idle and helpless players."""
        episode, seed = self._episodes[0], self._request.seed
        played = 0
        patience = Patience(_MORE_SECONDS)
        with self._subject.env() as env:
            actions = iter(some_hostile_actions(env, _BAD_ACTIONS))
            attempts = (chain([first], actions) for first in actions)
            players: Iterator[ScriptedPlayer] = (lambda *_, attempt=attempt: attempt for attempt in attempts)
            for player in chain([idle_player, helpless_player], players):
                if patience.is_over or self._leaks():
                    break
                with suppress(Broken):
                    play(WatchedEnv.around(env, watch), episode.task, seed, player)
                played += 1
        return played

    def _leaks(self) -> bool:
        """Return whether so many resources have leaked that playing must stop to protect the machine."""
        return bool(grown(self._held, resources(), least=_LEAK))

    def _more_tasks(self, env: Env) -> Iterator[Task]:
        """Yield tasks of all splits, alternating between them."""
        for index in range(_MORE_EPISODES):
            for split in env.tasks.splits:
                size = env.tasks.size(split)
                if size is None or index < size:
                    yield env.tasks.get(split, index)


def _trace(env: Env, episode: CheckedEpisode) -> list[str]:
    """Replay an episode and return its trace, with the error at the end if it fails."""
    try:
        return replayed(env, episode).trace()
    except Broken as broken:
        return [*broken.episode.trace(), canonical(str(broken))]


def _first_tasks(env: Env) -> Iterator[Task]:
    for split in env.tasks.splits:
        size = env.tasks.size(split)
        for index in range(_TASKS if size is None else min(size, _TASKS)):
            yield env.tasks.get(split, index)


def _fast_episodes(episodes: Sequence[CheckedEpisode]) -> list[CheckedEpisode]:
    """Return the first episodes that together took at most `_SECONDS`, but at least `_FEWEST`."""
    selected: list[CheckedEpisode] = []
    for episode in episodes:
        if len(selected) >= _FEWEST and sum(e.seconds for e in selected) + episode.seconds > _SECONDS:
            break
        selected.append(episode)
    return selected


def _change(before: Sequence[str], after: Sequence[str]) -> str:
    """Show the first difference between two traces."""
    for left, right in zip(before, after, strict=False):
        if left != right:
            return difference(left, right)
    return f"{len(before)} parts became {len(after)}"
