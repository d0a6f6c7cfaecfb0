"""Environments in worker processes: they use all cores, cannot block the rollout, and can be killed when stuck.

Each process holds several environments. If one does not return in time, its process gets no new episodes and ends
after its current ones, or at once if it does not respond at all. Episodes of a dead process are retried, which does not
count against their retries. Processes start before they are needed, are never forked from the caller's process, and are
replaced after a number of episodes or at a memory limit.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.core.endings import Reason
from agentgym.core.env import Env
from agentgym.core.foreign import describe
from agentgym.rollout.failures import WorkerLost
from agentgym.rollout.limits import OutOfTime, within
from agentgym.rollout.workers.base import EnvPlace, Workers
from agentgym.rollout.workers.fleet import CLOSE_S, START_S, WorkerFleet
from agentgym.rollout.workers.host import HostRequest, sealed
from agentgym.rollout.workers.starting import EXIT_S, Starter, make_starter, own_sockets
from agentgym.rollout.workers.wire import Outbox, packed, received


def cores() -> int:
    """Return the number of cores that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


PROBED = 3
"""Processes to ask for their capacity, one after the other, if they die before they answer."""


class ProcessWorkers(WorkerFleet["_Process"]):
    """Worker processes on this machine.

    Args:
        factory: Makes the environments; it is sent to the processes.
        max_in_flight: Episodes that may run at once.
        processes: Number of processes; by default one for each core that this process may use. Never more than
            episodes.
        episodes: A process is replaced after this many episodes.
        memory_mb: A process is replaced when it has needed this much memory; `None` for no limit.
    """

    def __init__(
        self,
        factory: Callable[[], Env],
        max_in_flight: int,
        *,
        processes: int | None = None,
        episodes: int = 2_000,
        memory_mb: float | None = None,
    ):
        if processes is not None and processes < 1:
            raise UsageError(f"processes must be at least 1, not {processes}")
        if not hasattr(os, "register_at_fork"):
            raise UsageError("worker processes need Linux or macOS; use workers='threads'")
        sealed("the environment factory", factory)  # raises if it cannot be sent
        super().__init__(episodes, memory_mb)
        self._factory = factory
        self._wanted = min(processes or cores(), max_in_flight)
        self._running: list[_Process] = []
        """Processes that get episodes."""
        self._alive: set[_Process] = set()
        self._spare: _Process | None = None
        """Replaces the next process that ends, so that no episode waits for one to start."""
        self._alone = asyncio.Semaphore(self._wanted)
        """Bounds the processes with one episode each."""
        self._closed = False
        self._starter: Starter | None = None

    @property
    def pids(self) -> list[int]:
        """Ids of the live processes."""
        return sorted(
            process.pid for process in list(self._alive) if process.pid is not None
        )  # other threads may call this

    async def at_once(self, most: int, limit_s: float | None = None) -> int:
        """Start the processes; return how many episodes can run concurrently, at most `most`."""
        while len(self._running) < min(self._wanted, most):
            self._running.append(self._started())
        for _ in range(PROBED):
            try:
                await self._learn_capacity(await self._with_room(), limit_s)
                break
            except WorkerLost:  # if all of them die, the episodes will report it
                continue
            except OutOfTime:  # and so they will if no environment can be made
                break
        return most if self._per_worker is None else min(most, self._per_worker * self._wanted)

    async def close(self) -> None:
        """End the processes."""
        self._closed = True
        self._running, self._spare = [], None
        await asyncio.gather(*(process.close() for process in list(self._alive)), *self._leaving)
        if self._starter is not None:
            await self._starter.close()

    def isolated(self) -> Workers:
        """Return workers that give each episode a process of its own."""
        return _Isolated(self)

    async def take_alone(self, limit_s: float | None) -> EnvPlace:
        """Return a place in a process that holds no other."""
        await self._alone.acquire()
        process = self._started(self._alone.release)
        process.is_usable = False  # it ends after this episode
        return await self._place_in(process, limit_s)

    def _started(self, then: Callable[[], None] = lambda: None) -> _Process:
        """Start a process; `then` is called once it has ended."""
        if self._closed:
            raise UsageError("these worker processes have been closed; make a new rollout engine")

        def ended(process: _Process) -> None:
            self._alive.discard(process)
            then()

        process = _Process(self._factory, self._working_starter(), ended)
        self._alive.add(process)
        return process

    def _working_starter(self) -> Starter:
        if self._starter is not None and not self._starter.works:
            self._start(self._starter.close())
            self._starter = None
        self._starter = self._starter or make_starter()
        return self._starter

    def _next(self) -> _Process:
        """Return a process to replace one that has been retired."""
        spare, self._spare = self._spare, None
        process = spare if spare is not None and spare.is_usable else self._started()
        self._spare = self._started()  # since one process had to be replaced, others will too
        return process

    async def _with_room(self) -> _Process:
        """Return the process with the fewest episodes."""
        had = len(self._running)
        self._running = [process for process in self._running if process.is_usable]
        while len(self._running) < self._wanted:
            self._running.append(self._next() if len(self._running) < had else self._started())
        process = min(self._running, key=lambda worker: len(worker.places))
        if self._is_full(process):
            # All are full because one has just been replaced.
            process = self._started()
            self._running.append(process)
        return process


class _Isolated:
    """Worker processes with one episode each."""

    def __init__(self, workers: ProcessWorkers):
        self._workers = workers

    async def at_once(self, most: int, limit_s: float | None = None) -> int:
        return await self._workers.at_once(most, limit_s)

    async def take(self, limit_s: float | None) -> EnvPlace:
        return await self._workers.take_alone(limit_s)

    def isolated(self) -> Workers:
        return self

    async def close(self) -> None:
        await self._workers.close()


class _Process:
    """A worker process, as seen by the process that started it."""

    def __init__(self, factory: Callable[[], Env], starter: Starter, ended: Callable[[_Process], None]):
        self._ended = ended
        self.places: set[int] = set()
        self.episodes = 0
        self.is_usable = True
        self._ours, theirs = socket.socketpair()
        own_sockets.add(self._ours)
        with theirs:
            self._process = starter.start(theirs.fileno())
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._lost: str | None = None
        self._outbox: Outbox | None = None
        self._ending: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[Any] = loop.create_future()
        self._waiting[0] = self._ready
        self._reading = loop.create_task(self._read(factory))
        self._watching = loop.create_task(self._watch())

    @property
    def pid(self) -> int | None:
        """The process's id, once it is known."""
        return self._process.pid

    async def ask(self, place: int, verb: str, *arguments: Any) -> Any:
        """Send a request and return the value of its reply, or raise its error."""
        if not self._ready.done() or self._ready.exception() is not None:
            await asyncio.shield(self._ready)
        if self._lost is not None or self._outbox is None:
            raise WorkerLost(f"worker process {self._process.pid} is gone: {self._lost}")
        number = next(self._numbers)
        reply = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._outbox.put(packed(HostRequest(number, place, verb, arguments)))
            return await reply
        finally:
            self._waiting.pop(number, None)

    def send(self, place: int, verb: str) -> None:
        """Send a request without waiting for the reply."""
        if self._lost is None and self._outbox is not None:
            self._outbox.put(packed(HostRequest(next(self._numbers), place, verb)))

    def kill(self, why: str) -> None:
        """End the process at once."""
        self._lose(f"it was killed, because {why}")
        self._process.kill()
        self._end()

    async def close(self) -> None:
        """Let the process close its environments and end; kill it if that takes too long."""
        if not self._ready.done():
            self.kill("it was closed before it had started")
        elif self._lost is None:
            try:
                await within(self.ask(0, "close"), CLOSE_S, Reason.STEP_TIME, "closing a worker process")
            except Exception:
                self._process.kill()
            self._lose("it was closed")
        await asyncio.shield(self._end())

    async def _read(self, factory: Callable[[], Env]) -> None:
        writer = None
        try:
            async with asyncio.timeout(START_S):
                reader, writer = await asyncio.open_connection(sock=self._ours)
                writer.write(packed(factory))
                answer = await received(reader)
            self._outbox = Outbox(writer)
            self._settle(answer)
            while True:
                self._settle(await received(reader))
        except EOFError:
            self._end()
        except Exception as error:
            self.kill(f"its reply could not be read ({describe(error)})")
        finally:
            self._ours.close() if writer is None else writer.close()

    async def _watch(self) -> None:
        """Notice the end of the process even if a program it started keeps its end of the socket open."""
        if await self._process.ended() is not None:
            await asyncio.wait((self._reading,), timeout=EXIT_S)  # its last replies
            self._end()

    def _end(self) -> asyncio.Task[None]:
        """Start to clean up after a process that ends."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._finish())
        return self._ending

    async def _finish(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(EXIT_S):
                await self._process.ended()
        self._process.kill()
        self._lose(f"it ended by itself (exit status {await self._process.ended()})")
        self._reading.cancel()
        self._watching.cancel()
        await asyncio.gather(self._reading, self._watching, return_exceptions=True)
        self._ended(self)

    def _settle(self, reply: Any) -> None:
        future = self._waiting.get(reply.number)
        if future is None or future.done():
            return
        if reply.error is None:
            future.set_result(reply.value)
        else:
            future.set_exception(reply.error)
            future.exception()  # it may never be awaited

    def _lose(self, why: str) -> None:
        """Fail every request that waits for the process."""
        self.is_usable = False
        if self._lost is not None:
            return
        self._lost = why
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(WorkerLost(f"worker process {self._process.pid} is gone: {why}"))
                future.exception()  # it may never be awaited
