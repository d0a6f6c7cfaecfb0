"""Environments in Ray actors, on any node of a cluster.

Each actor holds several environments. If an actor or its node dies, its episodes are retried elsewhere, which does not
count against their retries; another actor replaces it as soon as the cluster has room.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

from agentgym.base.errors import UsageError, require
from agentgym.core.endings import Reason
from agentgym.core.engine.threads import blocking
from agentgym.core.env import Env
from agentgym.core.foreign import describe
from agentgym.rollout.failures import WorkerLost
from agentgym.rollout.limits import OutOfTime, within
from agentgym.rollout.workers.base import Workers
from agentgym.rollout.workers.fleet import CLOSE_S, START_S, WorkerFleet
from agentgym.rollout.workers.host import EnvHost, HostReply, HostRequest, portable, sealed
from agentgym.rollout.workers.ray_session import join, leave


class RayHost:
    """Answers requests. Requests and replies are bytes: Ray would make arrays read-only and pickle more."""

    _host: EnvHost

    async def begin(self, factory: bytes, paths: list[str], folder: str) -> bytes:
        """Take the factory of environments.

        Args:
            factory: The factory, pickled.
            paths: The rollout's module search path; entries that exist here are added after this node's own.
            folder: The rollout's working directory; used here too if it exists.

        Returns:
            A pickled reply.
        """
        sys.path += [path for path in paths if path not in sys.path and os.path.exists(path)]
        if os.path.isdir(folder):
            os.chdir(folder)
        try:
            self._host = EnvHost(pickle.loads(factory))
        except Exception as error:
            return pickle.dumps(HostReply(0, error=portable(_cannot_import(error))))
        return pickle.dumps(HostReply(0))

    async def answer(self, request: bytes) -> bytes:
        """Carry out a pickled request; return the pickled reply."""
        try:
            opened = pickle.loads(request)
        except Exception as error:
            return pickle.dumps(HostReply(0, error=portable(error)))
        return await self._host.pickled(opened)


def _cannot_import(error: Exception) -> Exception:
    if not isinstance(error, AttributeError | ImportError):
        return error
    return UsageError(
        f"a Ray actor cannot import the environment ({describe(error)}); install its package on every node of the "
        "cluster, or pass RayWorkers a runtime_env that does"
    )


AGAIN_S = 1.0
"""Seconds to wait before starting another actor after one could not start."""

HOPELESS = 3
"""Give up if no actor runs and this many in a row could not start."""

_MAX_CONCURRENCY = 1_000_000
"""Requests that an actor handles at once; effectively no limit."""


class RayWorkers(WorkerFleet["_Actor"]):
    """Actors on a Ray cluster.

    This package and the environments must be installed on every node. On nodes that share the file system, modules are
    also found where this process finds them, and relative paths mean the same.

    Args:
        factory: Makes the environments; it is sent to the actors.
        max_in_flight: Episodes that may run at once.
        address: `HOST:PORT` of a cluster, or `auto` for the one that this machine is a node of; by default
            `RAY_ADDRESS`, else a new Ray on this machine, which ends with the workers. An existing connection of this
            process is used, and stays open.
        actors: Number of actors; by default as many as the cluster has room for, and never more than episodes.
        cpus_per_actor: CPUs that Ray reserves for each. By default, an actor starts where a CPU is free but does not
            reserve it, so that several rollouts can share a cluster.
        episodes: An actor is replaced after this many episodes.
        memory_mb: An actor is replaced when it has needed this much memory; `None` for no limit.
        runtime_env: Ray's `runtime_env` of the actors: packages, environment variables.

    Raises:
        MissingExtra: Ray is not installed.
        UsageError: There is no such cluster, or an argument cannot be used.
    """

    def __init__(
        self,
        factory: Callable[[], Env],
        max_in_flight: int,
        *,
        address: str | None = None,
        actors: int | None = None,
        cpus_per_actor: float | None = None,
        episodes: int = 2_000,
        memory_mb: float | None = None,
        runtime_env: Mapping[str, Any] | None = None,
    ):
        if actors is not None and actors < 1:
            raise UsageError(f"actors must be at least 1, not {actors}")
        if cpus_per_actor is not None and cpus_per_actor <= 0:
            raise UsageError(f"cpus_per_actor must be above 0, not {cpus_per_actor:g}")
        require("ray", "ray")
        self._factory = sealed("the environment factory", factory)
        super().__init__(episodes, memory_mb)
        # Without a number, Ray needs one free CPU to start an actor and reserves none to run it.
        self._options = {"num_cpus": cpus_per_actor, "runtime_env": dict(runtime_env or {})}
        self._cpus = cpus_per_actor or 1.0
        self._must_leave = join(address)
        self._wanted = min(actors or _room_for(self._cpus), max_in_flight)
        self._actors: list[_Actor] = []
        self._usage_error: UsageError | None = None
        """Why no actor will ever work."""
        self._failed_starts, self._start_after, self._last_error = 0, 0.0, ""
        self._changed = asyncio.Event()

    async def at_once(self, most: int, limit_s: float | None = None) -> int:
        """Start the actors; return how many episodes can run concurrently, at most `most`."""
        for is_last in (False, False, True):
            actor = await self._with_room()
            try:
                await self._learn_capacity(actor, limit_s)
                break
            except OutOfTime:  # the episodes will report it
                break
            except WorkerLost:
                if is_last:
                    raise
        return most if self._per_worker is None else min(most, self._per_worker * self._wanted)

    async def close(self) -> None:
        """End the actors, and Ray if it was started for them."""
        actors, self._actors = self._actors, []
        try:
            await asyncio.gather(*(actor.close() for actor in actors), *self._leaving)
        finally:
            if self._must_leave:
                self._must_leave = False
                await blocking.run(leave)

    def isolated(self) -> Workers:
        """Return these workers: a cluster may have no room for more actors."""
        return self

    async def _with_room(self) -> _Actor:
        """Return the least busy actor that has started; wait until there is one with a free place."""
        while True:
            self._fill()
            if self._usage_error is not None:
                raise self._usage_error
            ready = [actor for actor in self._actors if actor.is_usable and actor.is_ready]
            if actors := [actor for actor in ready if not self._is_full(actor)]:
                return min(actors, key=lambda actor: len(actor.places))
            await self._change()

    def _fill(self) -> None:
        """Start the actors that are missing."""
        self._actors = [actor for actor in self._actors if actor.is_usable or actor.places]
        missing = self._wanted - sum(actor.is_usable for actor in self._actors)
        if time.monotonic() >= self._start_after:
            self._actors += [_Actor(self._factory, self._options, self._on_start) for _ in range(missing)]

    async def _change(self) -> None:
        """Wait until an actor has started or a place is free. Raises `WorkerLost` if neither is likely."""
        is_hopeless = self._failed_starts >= HOPELESS and not any(actor.is_usable for actor in self._actors)
        if not is_hopeless:
            try:
                async with asyncio.timeout(START_S if self._actors else AGAIN_S):
                    await self._changed.wait()
                return
            except TimeoutError:
                if not self._actors or any(actor.places for actor in self._actors):
                    return
        raise WorkerLost(
            f"no Ray actor could be started: each needs {self._cpus:g} free CPUs"
            + (f"; {self._last_error}" if self._failed_starts else f" and none were free for {START_S:g} s")
        )

    def _on_start(self, error: Exception | None) -> None:
        """Note that an actor has started, or why it has not."""
        if error is None:
            self._failed_starts = 0
        elif isinstance(error, UsageError):
            self._usage_error = error
        else:
            self._failed_starts += 1
            self._start_after, self._last_error = time.monotonic() + AGAIN_S, str(error)
        self._has_changed()

    def _free(self, worker: _Actor, number: int) -> None:
        super()._free(worker, number)
        self._has_changed()

    def _has_changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class _Actor:
    """An actor, as seen by the process that started it."""

    def __init__(self, factory: bytes, options: Mapping[str, Any], on_start: Callable[[Exception | None], None]):
        import ray  # type: ignore[import-not-found]
        from ray.exceptions import RayError  # type: ignore[import-not-found]

        self.places: set[int] = set()
        self.episodes = 0
        self.is_usable = True
        self.is_ready = False
        self._ray: Any = ray
        self._error: type[Exception] = RayError
        self._lost: str | None = None
        self._numbers = count(1)
        self._requests: set[asyncio.Future[bytes]] = set()
        # Ray must not retry anything: the rollout repeats the work of a lost actor.
        self._actor: Any = (
            ray.remote(RayHost)
            .options(
                max_concurrency=_MAX_CONCURRENCY,
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy="SPREAD",
                **options,
            )
            .remote()
        )
        self._starting = asyncio.get_running_loop().create_task(self._start(factory, on_start))

    async def ask(self, place: int, verb: str, *arguments: Any) -> Any:
        """Send a request and return the value of its reply, or raise its error."""
        if self._lost is not None:
            raise WorkerLost(f"a Ray actor is gone: {self._lost}")
        request = pickle.dumps(HostRequest(next(self._numbers), place, verb, arguments), pickle.HIGHEST_PROTOCOL)
        return _value(await self._answer(lambda: self._actor.answer.remote(request)))

    def send(self, place: int, verb: str) -> None:
        """Send a request without waiting for the reply."""
        if self._lost is None:
            with suppress(self._error):
                self._actor.answer.remote(pickle.dumps(HostRequest(next(self._numbers), place, verb)))

    def kill(self, why: str) -> None:
        """End the actor at once."""
        self._lose(f"it was killed, because {why}")
        with suppress(self._error, ValueError):  # it may be dead already
            self._ray.kill(self._actor, no_restart=True)

    async def close(self) -> None:
        """Let the actor close its environments and end; kill it if that takes too long."""
        if self._lost is None and self.is_ready:
            with suppress(WorkerLost, OutOfTime, UsageError):
                await within(self.ask(0, "close"), CLOSE_S, Reason.STEP_TIME, "closing a Ray actor")
        self.kill("it was closed")
        self._starting.cancel()
        await asyncio.gather(self._starting, return_exceptions=True)
        if self._requests:  # a thread of Ray delivers their answers, and still needs the event loop
            await asyncio.wait(self._requests, timeout=CLOSE_S)

    async def _start(self, factory: bytes, on_start: Callable[[Exception | None], None]) -> None:
        try:
            paths = [path or os.getcwd() for path in sys.path]
            _value(await self._answer(lambda: self._actor.begin.remote(factory, paths, os.getcwd())))
        except Exception as error:
            self.kill(f"it did not start: {describe(error)}")
            on_start(error)
        else:
            self.is_ready = self._lost is None
            on_start(None)

    async def _answer(self, ask: Callable[[], Any]) -> bytes:
        try:
            answer = asyncio.wrap_future(ask().future())
            self._requests.add(answer)
            answer.add_done_callback(self._answered)
            # A cancelled caller informs the actor itself; Ray's request continues.
            return await asyncio.shield(answer)
        except self._error as error:
            self._lose(str(error).strip().splitlines()[0])
            raise WorkerLost(f"a Ray actor is gone: {self._lost}") from error

    def _answered(self, answer: asyncio.Future[bytes]) -> None:
        self._requests.discard(answer)
        answer.exception()  # it may never be awaited

    def _lose(self, why: str) -> None:
        """Retire the actor."""
        self.is_usable = self.is_ready = False
        self._lost = self._lost or why


def _value(data: bytes) -> Any:
    reply: HostReply = pickle.loads(data)
    if reply.error is not None:
        raise reply.error
    return reply.value


def _room_for(cpus_per_actor: float) -> int:
    """Return how many actors the whole cluster has room for."""
    import ray  # type: ignore[import-not-found]

    return max(1, int(ray.cluster_resources().get("CPU", 1) / cpus_per_actor))
