"""Environments in worker processes: they use all cores, cannot block the rollout, and can be killed when stuck.

Each process holds several environments. If one does not return in time, its process gets no more episodes and ends
after those that it has, at once if it does not answer at all. Episodes of a process that is gone are tried again, which
does not count against their retries. Processes are started before they are needed, never forked from the caller's own,
and replaced after a number of episodes or at a size.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

from agentgym.cores import cores
from agentgym.endings import Reason
from agentgym.env import Env
from agentgym.errors import UsageError
from agentgym.foreign.errors import describe
from agentgym.rollout.deadlines import OutOfTime, within
from agentgym.rollout.failures import WorkerLost
from agentgym.rollout.workers.base import Place, Workers
from agentgym.rollout.workers.fleet import CLOSE_S, START_S, Fleet
from agentgym.rollout.workers.host import Request, sealed
from agentgym.rollout.workers.starting import EXIT_S, Starter, make_starter, own_sockets
from agentgym.rollout.workers.wire import Outbox, packed, received

ASKED = 3
"""How many processes are asked how many environments they can hold, if they end before they answer."""


class ProcessWorkers(Fleet["_Process"]):
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
        sealed("the environment factory", factory)  # or refused
        super().__init__(episodes, memory_mb)
        self._factory = factory
        self._wanted = min(processes or cores(), max_in_flight)
        self._running: list[_Process] = []
        """Those that get episodes."""
        self._alive: set[_Process] = set()
        self._spare: _Process | None = None
        """Takes the place of the next process that ends, so that nobody waits for one to start."""
        self._alone = asyncio.Semaphore(self._wanted)
        """How many more processes with one episode each there may be."""
        self._closed = False
        self._starter: Starter | None = None

    @property
    def pids(self) -> list[int]:
        """The ids of the processes that live."""
        return sorted(process.pid for process in list(self._alive) if process.pid is not None)  # other threads may ask

    async def at_once(self, wanted: int, limit_s: float | None = None) -> int:
        """Start the processes; return how many of `wanted` episodes can run concurrently."""
        while len(self._running) < min(self._wanted, wanted):
            self._running.append(self._started())
        for _ in range(ASKED):
            try:
                await self._learn_capacity(await self._with_room(), limit_s)
                break
            except WorkerLost:  # if they all end at once, the episodes will say so
                continue
            except OutOfTime:  # and so they will if none can be made
                break
        return wanted if self._per_worker is None else min(wanted, self._per_worker * self._wanted)

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

    async def take_alone(self, limit_s: float | None) -> Place:
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
            self._go_on(self._starter.close())
            self._starter = None
        self._starter = self._starter or make_starter()
        return self._starter

    def _next(self) -> _Process:
        """Return the process that takes the place of one that gets no more episodes."""
        spare, self._spare = self._spare, None
        process = spare if spare is not None and spare.is_usable else self._started()
        self._spare = self._started()  # processes end here, so another one will
        return process

    async def _with_room(self) -> _Process:
        """Return the process with the fewest episodes."""
        had = len(self._running)
        self._running = [process for process in self._running if process.is_usable]
        while len(self._running) < self._wanted:
            self._running.append(self._next() if len(self._running) < had else self._started())
        process = min(self._running, key=lambda one: len(one.places))
        if self._is_full(process):
            # All are full, because one has just been replaced: the new one starts empty.
            process = self._started()
            self._running.append(process)
        return process


class _Isolated:
    """Worker processes with one episode each."""

    def __init__(self, workers: ProcessWorkers):
        self._workers = workers

    async def at_once(self, wanted: int, limit_s: float | None = None) -> int:
        return await self._workers.at_once(wanted, limit_s)

    async def take(self, limit_s: float | None) -> Place:
        return await self._workers.take_alone(limit_s)

    def isolated(self) -> Workers:
        return self

    async def close(self) -> None:
        await self._workers.close()


class _Process:
    """A worker process, as seen by the one that started it."""

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
            self._outbox.put(packed(Request(number, place, verb, arguments)))
            return await reply
        finally:
            self._waiting.pop(number, None)

    def tell(self, place: int, verb: str) -> None:
        """Send a request whose reply nobody waits for."""
        if self._lost is None and self._outbox is not None:
            self._outbox.put(packed(Request(next(self._numbers), place, verb)))

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
            self.kill(f"what it sent could not be read ({describe(error)})")
        finally:
            self._ours.close() if writer is None else writer.close()

    async def _watch(self) -> None:
        """Notice that the process has ended, although something that it started holds its end of the socket open."""
        if await self._process.ended() is not None:
            await asyncio.wait((self._reading,), timeout=EXIT_S)  # what it said last
            self._end()

    def _end(self) -> asyncio.Task[None]:
        """Begin to take leave of a process that ends."""
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
            future.exception()  # nobody may wait for it

    def _lose(self, why: str) -> None:
        """Fail everything that waits for the process."""
        self.is_usable = False
        if self._lost is not None:
            return
        self._lost = why
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(WorkerLost(f"worker process {self._process.pid} is gone: {why}"))
                future.exception()  # nobody may wait for it
