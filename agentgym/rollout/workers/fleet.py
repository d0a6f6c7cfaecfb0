"""Base class of remote workers: an episode goes to the least busy worker, and each worker is replaced when due."""

from __future__ import annotations

import asyncio
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

from agentgym.base.errors import InfrastructureError
from agentgym.core.endings import AnyReason, Reason
from agentgym.core.engine.spaces import Action
from agentgym.core.messages import Message
from agentgym.core.policy import Player, ScriptedPolicy
from agentgym.core.task import Task
from agentgym.rollout.failures import WorkerLost
from agentgym.rollout.limits import OutOfTime, within
from agentgym.rollout.workers.base import EnvPlace, EpisodeOpening, PlayedTurn
from agentgym.rollout.workers.host import SCRIPT, sealed
from agentgym.rollout.workers.pool import PROBES

DISCARD_S = 30.0
"""Seconds for a host to close an environment before it counts as stuck."""


class HostConnection(Protocol):
    """Sends requests to a host."""

    async def ask(self, place: int, verb: str, *arguments: Any) -> Any:
        """Send a request and return the value of its reply, or raise its error.

        Raises:
            WorkerLost: The host is dead.
        """
        ...

    def kill(self, why: str) -> None:
        """End the host at once. All its requests raise `WorkerLost`."""
        ...


@dataclass
class RemotePlace:
    """One environment of a host."""

    host: HostConnection
    number: int
    free: Callable[[], None]
    """Called once the place is free."""
    stuck: Callable[[], None]
    """Called instead if the environment did not return in time."""

    async def reset(self, seed: int, task: Task, training_step: int | None) -> EpisodeOpening:
        """Start an episode."""
        return await self.host.ask(self.number, "reset", seed, task, training_step)

    async def step(self, action: Action, tool_limit_s: float | None) -> PlayedTurn:
        """Play a turn."""
        return await self.host.ask(self.number, "step", action, tool_limit_s)

    async def interrupt(self, reason: AnyReason) -> PlayedTurn:
        """End the episode and grade it."""
        return await self.host.ask(self.number, "interrupt", reason)

    async def script(self, policy: ScriptedPolicy) -> Player:
        """Return the player of a script, which runs in the host."""
        await self.host.ask(self.number, "script", sealed(SCRIPT, policy))
        return _RemotePlayer(self)

    async def give_back(self) -> None:
        """Return the environment for use by another episode."""
        try:
            await self._leave("give_back")
        except WorkerLost:
            return  # the episode is complete

    async def discard(self, *, stuck: bool) -> None:
        """Get rid of the environment."""
        if stuck:
            self.stuck()
            return
        try:
            await self._leave("discard")
        except WorkerLost:
            return

    async def _leave(self, verb: str) -> None:
        try:
            await within(self.host.ask(self.number, verb), DISCARD_S, Reason.STEP_TIME, "closing an environment")
        except OutOfTime:
            self.host.kill("an environment could not be closed in time")
        finally:
            self.free()


class _RemotePlayer:
    """The player of a script that runs in a host."""

    def __init__(self, place: RemotePlace):
        self._place = place

    async def act(self, observation: list[Message]) -> Action | None:
        return await self._place.host.ask(self._place.number, "act", observation)


START_S = 120.0
"""Seconds for a worker to start and import what it needs."""

CLOSE_S = 15.0
"""Seconds for a worker to close its environments before it is killed."""

ANSWER_S = 5.0
"""Seconds for a worker with a stuck environment to prove that it still responds."""


class FleetWorker(HostConnection, Protocol):
    """A host of environments, as seen by the process that started it."""

    places: set[int]
    """Numbers of its places in use."""
    episodes: int
    """Number of episodes it has played."""
    is_usable: bool
    """Whether it takes new episodes."""

    def send(self, place: int, verb: str) -> None:
        """Send a request without waiting for the reply."""
        ...

    async def close(self) -> None:
        """Let the worker close its environments and end; kill it if that takes too long."""
        ...


W = TypeVar("W", bound=FleetWorker)


class WorkerFleet(ABC, Generic[W]):
    """Workers that each hold several environments.

    Args:
        episodes: A worker is replaced after this many episodes.
        memory_mb: A worker is replaced when it has needed this much memory; `None` for no limit.
    """

    def __init__(self, episodes: int, memory_mb: float | None):
        self._episodes, self._memory_mb = episodes, memory_mb
        self._per_worker: int | None = None
        """Number of episodes a worker can play at once; `None` for any number."""
        self._numbers = count(1)
        self._leaving: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def _with_room(self) -> W:
        """Return the least busy worker."""

    async def take(self, limit_s: float | None) -> EnvPlace:
        """Return a place in the worker with the fewest episodes."""
        return await self._place_in(await self._with_room(), limit_s)

    async def _place_in(self, worker: W, limit_s: float | None) -> EnvPlace:
        number = next(self._numbers)
        worker.places.add(number)
        # Environments are made one at a time, and the worker itself may still be starting.
        patience_s = None if limit_s is None else START_S + limit_s * len(worker.places)
        try:
            await within(worker.ask(number, "take", limit_s), patience_s, Reason.RESET_TIME, "making an environment")
        except BaseException as error:
            if isinstance(error, OutOfTime) and error.limit_s == patience_s:
                worker.kill("it did not make an environment in time")
            else:
                worker.send(number, "discard")  # otherwise the worker would keep the environment
            self._free(worker, number)
            raise
        return RemotePlace(worker, number, lambda: self._free(worker, number), lambda: self._stuck(worker, number))

    async def _learn_capacity(self, worker: W, limit_s: float | None) -> None:
        """Ask a worker how many episodes it can play at once. Kill it if it does not answer."""
        patience_s = None if limit_s is None else START_S + limit_s * PROBES
        asking = worker.ask(0, "at_once", sys.maxsize, limit_s)
        try:
            most = await within(asking, patience_s, Reason.RESET_TIME, "making an environment")
        except OutOfTime:
            worker.kill("it did not make an environment in time")
            raise
        self._per_worker = None if most == sys.maxsize else most

    def _is_full(self, worker: W) -> bool:
        return self._per_worker is not None and len(worker.places) >= self._per_worker

    def _free(self, worker: W, number: int) -> None:
        """Note that a place is free, and replace its worker if it is due."""
        worker.places.discard(number)
        worker.episodes += 1
        self._start(self._replace_if_due(worker))

    def _stuck(self, worker: W, number: int) -> None:
        """Retire a worker with a stuck environment; kill it if it does not respond at all."""
        worker.is_usable = False
        worker.send(number, "discard")
        self._start(self._kill_if_silent(worker))
        self._free(worker, number)

    async def _kill_if_silent(self, worker: W) -> None:
        try:
            await within(worker.ask(0, "memory"), ANSWER_S, Reason.STEP_TIME, "a sign of life")
        except OutOfTime:
            worker.kill("an environment did not return in time and blocked all others")
        except InfrastructureError:
            return

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _replace_if_due(self, worker: W) -> None:
        """Retire a worker that has played enough episodes or uses too much memory; end it after its last episode."""
        if worker.is_usable and worker.episodes >= self._episodes:
            worker.is_usable = False
        if worker.is_usable and self._memory_mb is not None:
            with suppress(WorkerLost):
                worker.is_usable = await worker.ask(0, "memory") < self._memory_mb
        if not worker.is_usable and not worker.places:
            await worker.close()
