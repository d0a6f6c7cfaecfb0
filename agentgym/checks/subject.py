"""The environment under test: how to make it, tasks to try it on, and episodes that several checks look at."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import islice, zip_longest
from statistics import fmean
from typing import Any, NamedTuple

import gymnasium
from gymnasium.envs.registration import EnvSpec

from agentgym import registry
from agentgym.checks.catalog import Blocked, CheckFailed, CheckSkipped
from agentgym.checks.contest import Contest, contest
from agentgym.checks.patience import Patience
from agentgym.checks.play import (
    Broken,
    Episode,
    Player,
    helpless_player,
    idle_player,
    play,
    random_player,
    solution_player,
    stubborn_player,
)
from agentgym.checks.probe import Probes, Process, Request, Surroundings
from agentgym.checks.sample import first_tasks, sample
from agentgym.checks.stumble import Stumble, play_stumble, stumbles_of
from agentgym.env import Env
from agentgym.foreign import ends_work
from agentgym.spaces import Action
from agentgym.task import Task

_CONTEST_SECONDS = 20.0
"""Time after which adversaries have played enough tasks, however few those were."""

_STUMBLE_SECONDS = 1.5
"""Time after which the stumbling player has played enough, however little that was, but for `_FEWEST_STUMBLES`."""

_FEWEST_STUMBLES = 6

_TRIED_STEPS = 3

_SLOW_STEP_S = 0.4
"""Checks of an environment whose average step takes longer would take many minutes."""

PLAYERS: dict[str, Player] = {
    "solution": solution_player,
    "random": random_player,
    "idle": idle_player,
    "helpless": helpless_player,
    "stubborn": stubborn_player,
}


class Pace(NamedTuple):
    """How quick an environment is."""

    reset_s: float
    step_s: float


class Stumbled(NamedTuple):
    """A solution in which one action went wrong."""

    solved: Episode
    stumble: Stumble
    episode: Episode


class Subject:
    """An environment under test.

    Args:
        target: An environment's id, or `"module:Class"`.
        kwargs: Arguments to make it with.
        seed: Where every random choice of the checks comes from.
    """

    def __init__(self, target: str, kwargs: Mapping[str, Any] | None = None, seed: int = 0):
        self.target, self.kwargs, self.seed = target, dict(kwargs or {}), seed
        self.process: Process = dict(os.environ), os.getcwd()
        """Environment variables and working directory from before anything was played."""
        self.is_slow = False
        """Whether checks must do with fewer tasks; set once `pace` is known."""
        self._played: dict[str, list[Any] | Exception] = {}

    def make(self, **extra: Any) -> Env:
        """Make a fresh environment. Raises `Blocked` if that does not work; the check `makes` says why."""
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
        """Make an environment with other arguments; skip the check where its class does not take them."""
        try:
            env = registry.make(self.target, **self.kwargs | extra)
        except TypeError as error:
            raise CheckSkipped(f"it cannot be made with {extra!r}: {error}") from error
        except Exception:
            self.make().close()  # tells whether it can be made at all
            raise
        try:
            yield env
        finally:
            env.close()

    @cached_property
    def spec(self) -> EnvSpec:
        """How Gymnasium would make it."""
        if self.target in gymnasium.registry or not registry.is_class_path(self.target):
            spec = gymnasium.spec(registry.resolve(self.target))
            return EnvSpec(spec.id, entry_point=spec.entry_point, kwargs=spec.kwargs | self.kwargs)
        name = self.target.rpartition(":")[2]
        return EnvSpec(f"checked/{name}-v0", entry_point=self.target, kwargs=self.kwargs)

    @cached_property
    def probes(self) -> Probes:
        """Fresh interpreters that have begun to play this environment."""
        stumbled = [stumbled.episode for stumbled in self.stumbled]
        request = Request(self.target, self.kwargs, self.spec, self.seed, self.probed, stumbled, self.pickled)
        try:
            return Probes(request, self.process)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise CheckFailed(f"what it is made with cannot be sent to another process: {error}") from error

    @property
    def surroundings(self) -> Surroundings:
        """What a fresh process has found out. Raises `CheckSkipped` where processes cannot be copied."""
        [found] = self.probes.values("surroundings")
        if found is None:
            raise CheckSkipped("this system has no os.fork")
        return Surroundings(**found)

    @property
    def probed(self) -> list[Episode]:
        """The episodes that fresh interpreters play again. Not cached: Python 3.11 has one lock for all instances."""
        return [self.episodes(player)[index] for player in ("solution", "random") for index in self.spread()]

    def spread(self) -> range:
        """Return the indices of up to six of `tasks`, spread over them."""
        return range(0, len(self.tasks), max(1, -(-len(self.tasks) // 6)))

    @cached_property
    def pickled(self) -> bytes | None:
        """A fresh environment, pickled; `None` if that does not work."""
        with self.env() as env:
            try:
                return pickle.dumps(env)
            except Exception:
                return None

    def pace(self) -> Pace:
        """How long resets and steps take, once it has warmed up: those of the solution or random ones, if slower."""
        with self.env() as env:
            task = env.tasks.get(next(iter(env.tasks.splits)), 0)
            _, warm = (play(env, task, self.seed, _briefly) for _ in range(2))
            steps = [fmean(warm.step_s)]
            with suppress(Broken, ValueError):
                steps.append(fmean(play(env, task, self.seed, solution_player).step_s))
        self.is_slow = max(steps) > _SLOW_STEP_S
        return Pace(warm.reset_s, max(steps))

    def close(self) -> None:
        """End what the checks have started, and set back what the environment may have changed."""
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
        """A few tasks of every split and difficulty, and some more where that makes too few; fewer if it is slow."""
        return sample(self.scanned, 1, 2) if self.is_slow else sample(self.scanned)

    @property
    def few_tasks(self) -> list[Task]:
        """Up to six of `tasks`, spread over them: for checks that need several episodes per task."""
        return [self.tasks[index] for index in self.spread()]

    def play(self, task: Task, player: str, env: Env | None = None) -> Episode:
        """Play one episode with a named player, in a fresh environment if none is given."""
        if env is not None:
            return play(env, task, self.seed, PLAYERS[player], player)
        with self.env() as made:
            return play(made, task, self.seed, PLAYERS[player], player)

    def episodes(self, player: str) -> list[Episode]:
        """Return one episode per task of `tasks`, played once however many checks ask.

        Raises:
            Blocked: They cannot be played; the check `plays` says why.
        """
        return self._once(player, lambda: self.record(player))

    def _once(self, player: str, work: Callable[[], list[Any]]) -> list[Any]:
        """Return what a player did, playing it when it is first asked for."""
        if player not in self._played:
            try:
                self._played[player] = work()
            except Exception as error:
                self._played[player] = error
        found = self._played[player]
        if isinstance(found, Blocked):
            raise found
        if isinstance(found, Exception):
            raise Blocked(f"its {player} episodes cannot be played", "plays") from found
        return found

    def _stumbles(self, env: Env, solved: Episode) -> list[Stumble]:
        env.reset(seed=solved.seed, options={"task": solved.task})  # the tools may be those of the episode
        return stumbles_of(env, solved)

    @cached_property
    def contests(self) -> list[Contest]:
        """What adversaries and honest attempts that fail did on some tasks; none where no solution can be spoiled."""
        solutions = self.episodes("solution")
        others = [*solutions, *self.episodes("random")]
        until = time.monotonic() + _CONTEST_SECONDS
        found: list[Contest] = []
        with self.env() as env:
            for solved in (solutions[index] for index in self.spread()):
                played = contest(env, solved, [other for other in others if other is not solved])
                found += [] if played is None else [played]
                if time.monotonic() > until:
                    break
        return found

    @property
    def stumbled(self) -> list[Stumbled]:
        """Solutions of some tasks with one action gone wrong, and what came of it.

        Raises:
            Blocked: They cannot be played; the check `plays` says why.
        """
        return self._once("stumbling", self._stumble)

    def _stumble(self) -> list[Stumbled]:
        solutions = [self.episodes("solution")[index] for index in self.spread()]
        patience = Patience(_STUMBLE_SECONDS)
        found: list[Stumbled] = []
        with self.env() as env:
            ways = [[(solved, stumble) for stumble in self._stumbles(env, solved)] for solved in solutions]
            # In turns, so that a slow environment is tried on every task.
            for solved, stumble in (pair for pairs in zip_longest(*ways) for pair in pairs if pair is not None):
                found.append(Stumbled(solved, stumble, play_stumble(env, solved, stumble)))
                if patience.is_over and len(found) >= _FEWEST_STUMBLES:
                    break
        return found

    def more_episodes(self, player: str, count: int) -> list[Episode]:
        """Return up to `count` episodes of a player, of more tasks than `tasks` if those are fewer."""
        known = self.episodes(player)
        tasks = (task for tasks in self.scanned.values() for task in tasks if task not in self.tasks)
        with self.env() as env:
            more = (play(env, task, self.seed, PLAYERS[player], player) for task in tasks)
            return [*known[:count], *islice(more, max(0, count - len(known)))]

    def all_episodes(self) -> list[Episode]:
        """Return the episodes of all players."""
        steady = [episode for player in PLAYERS for episode in self.episodes(player)]
        return [*steady, *(stumbled.episode for stumbled in self.stumbled)]

    def record(self, player: str) -> list[Episode]:
        """Play each task with a seed of its own. Raises `Broken` naming the task and the turn that broke."""
        with self.env() as env:
            return [
                play(env, task, self.seed + number, PLAYERS[player], player) for number, task in enumerate(self.tasks)
            ]


def _briefly(env: Env, task: Task) -> Iterable[Action]:
    return islice(random_player(env, task), _TRIED_STEPS)
