"""The environment under test: how to make it, tasks to try it on, and episodes that several checks look at."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from statistics import fmean
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from agentgym import registry
from agentgym.checks.catalog import Blocked, CheckFailed, CheckSkipped
from agentgym.checks.contest import Contest, contest
from agentgym.checks.play import (
    Episode,
    Player,
    helpless_player,
    idle_player,
    play,
    random_player,
    solution_player,
    stubborn_player,
)
from agentgym.checks.probe import Probes
from agentgym.env import Env
from agentgym.foreign import ends_work
from agentgym.spaces import Action
from agentgym.task import Task

PER_LEVEL = 2
"""Tasks tried per split and difficulty."""

_SCANNED = 200
"""Tasks looked at per split."""

_SCAN_SECONDS = 2.0
"""Time after which a split has been looked at enough, however few tasks that were."""

_CONTEST_SECONDS = 20.0
"""Time after which adversaries have played enough tasks, however few those were."""

_TRIED_STEPS = 3

PLAYERS: dict[str, Player] = {
    "solution": solution_player,
    "random": random_player,
    "idle": idle_player,
    "helpless": helpless_player,
    "stubborn": stubborn_player,
}


class Subject:
    """An environment under test.

    Args:
        target: An environment's id, or `"module:Class"`.
        kwargs: Arguments to make it with.
        seed: Where every random choice of the checks comes from.
    """

    def __init__(self, target: str, kwargs: Mapping[str, Any] | None = None, seed: int = 0):
        self.target, self.kwargs, self.seed = target, dict(kwargs or {}), seed
        self._episodes: dict[str, list[Episode] | Exception] = {}

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
        from agentgym.checks.probe_child import Request

        pickled, episodes = self.pickled, self.probed
        try:
            return Probes(Request(self.target, self.kwargs, self.spec, self.seed, episodes, pickled))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise CheckFailed(f"what it is made with cannot be sent to another process: {error}") from error

    @cached_property
    def probed(self) -> list[Episode]:
        """The episodes that fresh interpreters play again."""
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

    def pace(self) -> tuple[float, float]:
        """Return the seconds of a reset and of a step, of an environment that has warmed up."""
        with self.env() as env:
            task = env.tasks.get(next(iter(env.tasks.splits)), 0)
            _, warm = (play(env, task, self.seed, _briefly) for _ in range(2))
        return warm.reset_s, fmean(warm.step_s)

    def close(self) -> None:
        """End what the checks have started."""
        if "probes" in self.__dict__:
            self.probes.close()

    @cached_property
    def scanned(self) -> dict[str, list[Task]]:
        """The first tasks of every split."""
        with self.env() as env:
            return {split: _first_tasks(env, split) for split in env.tasks.splits}

    @cached_property
    def tasks(self) -> list[Task]:
        """A few tasks of every split and difficulty."""
        chosen: list[Task] = []
        for tasks in self.scanned.values():
            levels: dict[int, int] = {}
            for task in tasks:
                levels[task.difficulty] = levels.get(task.difficulty, 0) + 1
                if levels[task.difficulty] <= PER_LEVEL:
                    chosen.append(task)
        return chosen

    @property
    def few_tasks(self) -> list[Task]:
        """Up to six of `tasks`, spread over them: for checks that need several episodes per task."""
        return [self.tasks[index] for index in self.spread()]

    def play(self, task: Task, player: str, env: Env | None = None) -> Episode:
        """Play one episode with a named player, in a fresh environment if none is given."""
        if env is not None:
            return play(env, task, self.seed, PLAYERS[player])
        with self.env() as made:
            return play(made, task, self.seed, PLAYERS[player])

    def episodes(self, player: str) -> list[Episode]:
        """Return one episode per task of `tasks`, played once however many checks ask.

        Raises:
            Blocked: They cannot be played; the check `plays` says why.
        """
        if player not in self._episodes:
            try:
                self._episodes[player] = self.record(player)
            except Exception as error:
                self._episodes[player] = error
        found = self._episodes[player]
        if isinstance(found, Blocked):
            raise found
        if isinstance(found, Exception):
            raise Blocked(f"its {player} episodes cannot be played", "plays") from found
        return found

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

    def all_episodes(self) -> list[Episode]:
        """Return the episodes of all players."""
        return [episode for player in PLAYERS for episode in self.episodes(player)]

    def record(self, player: str) -> list[Episode]:
        """Play one episode per task. Raises `Broken` naming the task and the turn that broke."""
        with self.env() as env:
            return [play(env, task, self.seed, PLAYERS[player]) for task in self.tasks]


def _briefly(env: Env, task: Task) -> Iterable[Action]:
    return islice(random_player(env, task), _TRIED_STEPS)


def _first_tasks(env: Env, split: str) -> list[Task]:
    size = env.tasks.size(split)
    until = time.monotonic() + _SCAN_SECONDS
    tasks: list[Task] = []
    for index in range(_SCANNED if size is None else min(size, _SCANNED)):
        tasks.append(env.tasks.get(split, index))
        if time.monotonic() > until:
            break
    return tasks
