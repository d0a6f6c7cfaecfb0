"""The environment under test: how to make it, the tasks to test it on, and episodes that several checks share."""

from __future__ import annotations

import os
import pickle
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import islice, zip_longest
from statistics import fmean
from typing import Any, NamedTuple, Self

import gymnasium
from gymnasium.envs.registration import EnvSpec

from agentgym.check import adversaries, constants
from agentgym.check.honest import Contest, Stumble, contest, play_stumble, stumbles_of
from agentgym.check.outcomes import Blocked, CheckFailed, CheckSkipped, Patience
from agentgym.check.play import (
    Broken,
    CheckedEpisode,
    helpless_player,
    idle_player,
    play,
    random_player,
    replayed,
    solving_player,
    stubborn_player,
)
from agentgym.check.probe import JOBS, ProbeRequest, Probes, Process, Surroundings
from agentgym.core import registry
from agentgym.core.engine.spaces import Action
from agentgym.core.env import Env
from agentgym.core.foreign import ends_work
from agentgym.core.policy import ScriptedPlayer
from agentgym.core.task import Task, TaskSource

PER_LEVEL = 2
"""Tasks played per split and difficulty."""

FEWEST = 4
"""Minimum number of tasks played, if the source has that many."""

_SCANNED = 200
"""Maximum number of tasks inspected per split."""

_SCAN_SECONDS = 2.0
"""Seconds after which no more tasks of a split are inspected, however few have been."""


def first_tasks(source: TaskSource) -> dict[str, list[Task]]:
    """Return the first tasks of every split."""
    return {split: _first_tasks(source, split) for split in source.splits}


def sample(scanned: Mapping[str, Sequence[Task]], per_level: int = PER_LEVEL, fewest: int = FEWEST) -> list[Task]:
    """Return the first `per_level` tasks of every split and difficulty, and others to reach `fewest` in total."""
    selected: list[Task] = []
    others: list[Task] = []
    for tasks in scanned.values():
        counts: Counter[int] = Counter()
        for task in tasks:
            counts[task.difficulty] += 1
            (selected if counts[task.difficulty] <= per_level else others).append(task)
    return [*selected, *others[: max(0, fewest - len(selected))]]


def _first_tasks(source: TaskSource, split: str) -> list[Task]:
    size = source.size(split)
    until = time.monotonic() + _SCAN_SECONDS
    tasks: list[Task] = []
    for index in range(_SCANNED if size is None else min(size, _SCANNED)):
        tasks.append(source.get(split, index))
        if time.monotonic() > until:
            break
    return tasks


_CONTEST_SECONDS = 20.0
"""Seconds after which adversaries start no further task."""

_STUMBLE_SECONDS = 1.5
"""Seconds after which the stumbling player stops, once it has played `_FEWEST_STUMBLES`."""

_FEWEST_STUMBLES = 6

_SOLUTION_SECONDS = 0.6
"""Seconds after which no more than the usual solutions are played."""

_TRIED_STEPS = 3

_LONG_TURNS = 40

_SLOW_STEP_S = _SLOW_EPISODE_S = 0.4
"""Average step time, or time of a solved episode, above which the full set of tasks would take minutes to check."""

PLAYERS: dict[str, ScriptedPlayer] = {
    "solution": solving_player,
    "random": random_player,
    "idle": idle_player,
    "helpless": helpless_player,
    "stubborn": stubborn_player,
}


class EnvPace(NamedTuple):
    """The measured speed of an environment."""

    reset_s: float
    step_s: float


class Stumbled(NamedTuple):
    """A solution with a mistake in one action, and the episode that resulted."""

    solved: CheckedEpisode
    stumble: Stumble
    episode: CheckedEpisode


class Subject:
    """An environment under test.

    Args:
        target: An environment id, or `"module:Class"`.
        kwargs: Arguments passed to its constructor.
        seed: Seeds every random choice that the checks make.
        jobs: Jobs that fresh processes start with as soon as one of them is needed.
        patience_s: Seconds that a fresh process may take at least.
    """

    def __init__(
        self,
        target: str,
        kwargs: Mapping[str, Any] | None = None,
        seed: int = 0,
        jobs: Collection[str] = JOBS,
        patience_s: float = 0.0,
    ):
        self._jobs, self._patience_s = jobs, patience_s
        self.target, self.kwargs, self.seed = target, dict(kwargs or {}), seed
        self.process: Process = dict(os.environ), os.getcwd()
        """Environment variables and working directory before the first episode."""
        self.is_slow = False
        """Whether checks must use fewer tasks; set by `pace`."""
        self._played: dict[str, list[Any] | Exception] = {}
        self._replays: list[tuple[CheckedEpisode, CheckedEpisode]] = []

    @classmethod
    def of(cls, request: ProbeRequest) -> Self:
        """Return the subject that a request describes."""
        return cls(request.target, request.kwargs, request.seed)

    def make(self, **extra: Any) -> Env:
        """Make a fresh environment. Raises `Blocked` on failure; the check `makes` reports why."""
        try:
            return registry.make(self.target, **self.kwargs | extra)
        except BaseException as error:
            if ends_work(error, None):
                raise
            raise Blocked("it cannot be made", "makes") from error

    @contextmanager
    def env(self, **extra: Any) -> Iterator[Env]:
        """Make an environment and close it afterwards."""
        env = self.make(**extra)
        try:
            yield env
        finally:
            env.close()

    @contextmanager
    def variant(self, **extra: Any) -> Iterator[Env]:
        """Make an environment with additional arguments. Raises `CheckSkipped` if its class does not accept them."""
        try:
            env = registry.make(self.target, **self.kwargs | extra)
        except TypeError as error:
            raise CheckSkipped(f"it cannot be made with {extra!r}: {error}") from error
        except Exception:
            self.make().close()  # raises `Blocked` if it cannot be made at all
            raise
        try:
            yield env
        finally:
            env.close()

    @cached_property
    def long(self) -> dict[str, Any]:
        """Arguments that make episodes longer if the environment is slow; otherwise empty."""
        if not self.is_slow:
            return {}
        with self.env() as env:
            arguments = {"max_turns": max(_LONG_TURNS, env.max_turns)}
        with suppress(Exception), self.variant(**arguments):  # some environments allow no more turns
            return arguments
        return {}

    @cached_property
    def spec(self) -> EnvSpec:
        """The spec that Gymnasium would use to make it."""
        if self.target in gymnasium.registry or not registry.is_class_path(self.target):
            spec = gymnasium.spec(registry.resolve(self.target))
            return EnvSpec(spec.id, entry_point=spec.entry_point, kwargs=spec.kwargs | self.kwargs)
        name = self.target.rpartition(":")[2]
        return EnvSpec(f"checked/{name}-v0", entry_point=self.target, kwargs=self.kwargs)

    @cached_property
    def probes(self) -> Probes:
        """Fresh interpreters that play this environment; first access starts those that are known to be needed."""
        stumbled = [stumbled.episode for stumbled in self.stumbled]
        request = ProbeRequest(self.target, self.kwargs, self.spec, self.seed, self.probed, stumbled, self.pickled)
        try:
            return Probes(request, self.process, self._jobs, self._patience_s)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise CheckFailed(f"its arguments cannot be sent to another process: {error}") from error

    @property
    def surroundings(self) -> Surroundings:
        """The findings of a fresh process. Raises `CheckSkipped` on systems without `os.fork`."""
        [values] = self.probes.values("surroundings")
        if values is None:
            raise CheckSkipped("this system has no os.fork")
        return Surroundings(**values)

    @property
    def probed(self) -> list[CheckedEpisode]:
        """The episodes that fresh interpreters replay. Not cached: Python 3.11 has one lock for all instances."""
        return [self.episodes(player)[index] for player in ("solution", "random") for index in self.spread()]

    @property
    def few_probed(self) -> list[CheckedEpisode]:
        """Every second episode of `probed` if the environment is slow, else all of them."""
        return self.probed[:: 2 if self.is_slow else 1]

    def replays(self) -> list[tuple[CheckedEpisode, CheckedEpisode]]:
        """Return two replays of each of `probed`, each in a fresh environment; played once and shared by all checks.

        The second replays run in reverse order, so that alternating behaviour differs between the two.
        """
        if not self._replays:
            first = [self._again(episode) for episode in self.probed]
            second = [self._again(episode) for episode in reversed(self.probed)]
            self._replays = [*zip(first, reversed(second), strict=True)]
        return self._replays

    def _again(self, episode: CheckedEpisode) -> CheckedEpisode:
        with self.env() as env:
            return replayed(env, episode)

    def spread(self) -> range:
        """Return the indices of up to six evenly spread items of `tasks`."""
        return range(0, len(self.tasks), max(1, -(-len(self.tasks) // 6)))

    @cached_property
    def pickled(self) -> bytes | None:
        """A fresh environment, pickled; `None` if it cannot be pickled."""
        with self.env() as env:
            try:
                return pickle.dumps(env)
            except Exception:
                return None

    def pace(self) -> EnvPace:
        """Measure resets and steps after a warm-up. The step time is the larger of random steps and the solution's."""
        with self.env() as env:
            task = env.tasks.get(next(iter(env.tasks.splits)), 0)
            _, warm = (play(env, task, self.seed, _briefly) for _ in range(2))
            steps, episode_s = [fmean(warm.step_s)], 0.0
            with suppress(Broken, ValueError):
                solved = play(env, task, self.seed, solving_player)
                episode_s = solved.seconds
                steps.append(fmean(solved.step_s))
        self.is_slow = max(steps) > _SLOW_STEP_S or episode_s > _SLOW_EPISODE_S
        return EnvPace(warm.reset_s, max(steps))

    def close(self) -> None:
        """Stop the processes that the checks started; restore environment variables and the working directory."""
        variables, folder = self.process
        if os.environ != variables:
            os.environ.clear()
            os.environ.update(variables)
        os.chdir(folder)
        if "probes" in self.__dict__:
            self.probes.close()

    @cached_property
    def scanned(self) -> dict[str, list[Task]]:
        """The first tasks of every split."""
        with self.env() as env:
            return first_tasks(env.tasks)

    @cached_property
    def tasks(self) -> list[Task]:
        """A few tasks of every split and difficulty, topped up if too few; fewer if the environment is slow."""
        return sample(self.scanned, per_level=1) if self.is_slow else sample(self.scanned)

    def play(self, task: Task, player: str, env: Env | None = None) -> CheckedEpisode:
        """Play one episode with a named player, in a fresh environment by default."""
        if env is not None:
            return play(env, task, self.seed, PLAYERS[player], player)
        with self.env() as fresh:
            return play(fresh, task, self.seed, PLAYERS[player], player)

    def episodes(self, player: str) -> list[CheckedEpisode]:
        """Return one episode per task of `tasks`, played once and shared by all checks.

        Raises:
            Blocked: The episodes cannot be played; the check `plays` reports why.
        """
        return self._once(player, lambda: self.record(player))

    def _once(self, player: str, work: Callable[[], list[Any]]) -> list[Any]:
        """Return the cached result of `work` for a player; the first call runs it."""
        if player not in self._played:
            try:
                self._played[player] = work()
            except Exception as error:
                self._played[player] = error
        result = self._played[player]
        if isinstance(result, Blocked):
            raise result
        if isinstance(result, Exception):
            raise Blocked(f"its {player} episodes cannot be played", "plays") from result
        return result

    def _stumbles(self, env: Env, solved: CheckedEpisode) -> list[Stumble]:
        env.reset(seed=solved.seed, options={"task": solved.task})  # the tools may depend on the episode
        return stumbles_of(env, solved)

    @cached_property
    def contests(self) -> list[Contest]:
        """Contests between adversaries and honest failures on some tasks; empty if no solution can be spoiled."""
        solutions = self.episodes("solution")
        others = [*solutions, *self.episodes("random")]
        until = time.monotonic() + _CONTEST_SECONDS
        contests: list[Contest] = []
        with self.env() as env:
            for index in self.spread():
                solved = solutions[index]
                recorded = {name: self.episodes(player)[index] for name, player in adversaries.PLAYERS.items()}
                played = contest(env, solved, [other for other in others if other is not solved], recorded=recorded)
                contests += [] if played is None else [played]
                if time.monotonic() > until:
                    break
        return contests

    @property
    def stumbled(self) -> list[Stumbled]:
        """Solutions of some tasks with a mistake in one action, and the resulting episodes.

        Raises:
            Blocked: The episodes cannot be played; the check `plays` reports why.
        """
        return self._once("stumbling", self._stumble)

    def _stumble(self) -> list[Stumbled]:
        solutions = [self.episodes("solution")[index] for index in self.spread()]
        patience = Patience(_STUMBLE_SECONDS)
        stumbled: list[Stumbled] = []
        with self.env() as env:
            ways = [[(solved, stumble) for stumble in self._stumbles(env, solved)] for solved in solutions]
            # Tasks alternate, so that a slow environment is tested on each of them.
            for solved, stumble in (pair for pairs in zip_longest(*ways) for pair in pairs if pair is not None):
                stumbled.append(Stumbled(solved, stumble, play_stumble(env, solved, stumble)))
                if patience.is_over and len(stumbled) >= _FEWEST_STUMBLES:
                    break
        return stumbled

    def more_episodes(self, player: str, count: int) -> list[CheckedEpisode]:
        """Return up to `count` episodes of a player, on tasks beyond `tasks` if those are too few."""
        recorded = self.episodes(player)
        tasks = (task for tasks in self.scanned.values() for task in tasks if task not in self.tasks)
        with self.env() as env:
            more = (play(env, task, self.seed, PLAYERS[player], player) for task in tasks)
            return [*recorded[:count], *islice(more, max(0, count - len(recorded)))]

    @cached_property
    def solutions(self) -> list[CheckedEpisode]:
        """Solutions of `tasks` and, unless the environment is slow, of others, from all splits in turn."""
        patience = Patience(_SOLUTION_SECONDS)
        episodes = list(self.episodes("solution"))
        if self.is_slow:
            return episodes
        in_turn = (task for row in zip_longest(*self.scanned.values()) for task in row)
        with self.env() as env:
            for task in in_turn:
                if patience.is_over or len(episodes) >= constants.TASKS:
                    break
                if task is not None and task not in self.tasks:
                    episodes.append(play(env, task, self.seed, solving_player, "solution"))
        return episodes

    def all_episodes(self) -> list[CheckedEpisode]:
        """Return the episodes of all players."""
        steady = [episode for player in PLAYERS for episode in self.episodes(player)]
        return [*steady, *(stumbled.episode for stumbled in self.stumbled)]

    def record(self, player: str) -> list[CheckedEpisode]:
        """Play each task with its own seed. Raises `Broken` with the task and the turn that failed."""
        with self.env() as env:
            return [
                play(env, task, self.seed + number, PLAYERS[player], player) for number, task in enumerate(self.tasks)
            ]


def _briefly(env: Env, task: Task) -> Iterable[Action]:
    return islice(random_player(env, task), _TRIED_STEPS)
