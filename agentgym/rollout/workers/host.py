"""Plays episodes in a worker process at the request of a rollout.

Both process workers and Ray actors use it, so that they behave alike.
"""

from __future__ import annotations

import asyncio
import pickle
import resource
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

from agentgym.base.errors import AgentGymError, InfrastructureError, UsageError
from agentgym.core.endings import Reason
from agentgym.core.engine.steps import ENGINE_INFO, details_in
from agentgym.core.env import Env
from agentgym.core.foreign import caught, contained_tasks, describe, ends_work, running_task
from agentgym.core.policy import EndEpisode, Player
from agentgym.rollout.limits import OutOfTime
from agentgym.rollout.workers.base import EnvPlace, PlayedTurn
from agentgym.rollout.workers.local import LocalWorkers
from agentgym.rollout.workers.pool import EnvPool

SCRIPT = "the script of the policy"


@dataclass(frozen=True)
class HostRequest:
    """A request for one episode."""

    number: int
    place: int
    """Number of the place, chosen by the rollout, which takes the place with its first request."""
    verb: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class HostReply:
    """The result of a request, or its error."""

    number: int
    value: Any = None
    error: Exception | None = None


class EnvHost:
    """Holds environments and plays episodes in them.

    Args:
        factory: Makes the environments.
    """

    def __init__(self, factory: Callable[[], Env]):
        self._workers = LocalWorkers(EnvPool(factory))
        self._places: dict[int, EnvPlace] = {}
        self._players: dict[int, Player] = {}
        self._running: dict[int, asyncio.Task[Any]] = {}
        """The running request of each place."""

    async def answer(self, request: HostRequest) -> HostReply:
        """Carry out a request. An exception becomes the reply."""
        with contained_tasks():
            task = asyncio.create_task(caught(lambda: self._do(request)))
            if request.verb != "discard":
                self._running[request.place] = task
            await asyncio.wait((task,))
            if self._running.get(request.place) is task:
                del self._running[request.place]
        result = asyncio.CancelledError("the episode cancelled itself") if task.cancelled() else task.result()
        if isinstance(result, BaseException):
            return HostReply(request.number, error=portable(result))
        return HostReply(request.number, result)

    async def pickled(self, request: HostRequest) -> bytes:
        """Return the pickled reply. Every error is a reply too: without one, the rollout would wait forever."""
        try:
            return pickle.dumps(await self.answer(request), pickle.HIGHEST_PROTOCOL)
        except BaseException as error:
            if ends_work(error, running_task()):
                raise
            return pickle.dumps(HostReply(request.number, error=portable(error)), pickle.HIGHEST_PROTOCOL)

    async def _do(self, request: HostRequest) -> Any:
        return await self._VERBS[request.verb](self, request.place, *request.arguments)

    async def _at_once(self, _: int, *arguments: Any) -> int:
        return await self._workers.at_once(*arguments)

    async def _take(self, number: int, limit_s: float | None) -> None:
        self._places[number] = await self._workers.take(limit_s)

    async def _script(self, number: int, policy: bytes) -> None:
        self._players[number] = await self._places[number].script(opened(SCRIPT, policy))

    async def _act(self, number: int, observation: Any) -> Any:
        return await self._players[number].act(observation)

    async def _reset(self, number: int, *arguments: Any) -> Any:
        return await self._places[number].reset(*arguments)

    async def _step(self, number: int, *arguments: Any) -> Any:
        return _noted(await self._places[number].step(*arguments))

    async def _interrupt(self, number: int, *arguments: Any) -> Any:
        return _noted(await self._places[number].interrupt(*arguments))

    async def _give_back(self, number: int) -> None:
        await self._removed(number).give_back()

    async def _discard(self, number: int) -> None:
        if (task := self._running.pop(number, None)) is not None:  # the rollout no longer waits for its reply
            task.cancel()
            await asyncio.wait((task,))
        if number in self._places:
            await self._removed(number).discard(stuck=False)

    async def _memory(self, _: int) -> float:
        return _peak_mb()

    async def _close(self, _: int) -> None:
        await asyncio.gather(*(place.discard(stuck=False) for place in self._places.values()))
        self._places.clear()
        await self._workers.close()

    def _removed(self, number: int) -> EnvPlace:
        self._players.pop(number, None)
        return self._places.pop(number)

    _VERBS: ClassVar[Mapping[str, Callable[..., Awaitable[Any]]]] = MappingProxyType(
        {
            "at_once": _at_once,
            "take": _take,
            "script": _script,
            "act": _act,
            "reset": _reset,
            "step": _step,
            "interrupt": _interrupt,
            "give_back": _give_back,
            "discard": _discard,
            "memory": _memory,
            "close": _close,
        }
    )


def _peak_mb() -> float:
    """Return the peak memory of this process in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def _noted(played: PlayedTurn) -> PlayedTurn:
    """Return a turn whose details can be sent: as in the record, a note replaces values that are not JSON data."""
    if played.reason is None:
        return played
    info = played.result.info
    own = {name: value for name, value in info.items() if name in ENGINE_INFO}
    return replace(played, result=played.result._replace(info={**details_in(info), **own}))


def portable(error: BaseException) -> Exception:
    """Return an error of a type that the other process knows."""
    if isinstance(error, OutOfTime):
        return OutOfTime(Reason(error.reason), error.what, error.limit_s)
    if isinstance(error, EndEpisode):
        return EndEpisode(Reason(error.reason))
    kind = type(error) if isinstance(error, AgentGymError | TypeError | ImportError) else InfrastructureError
    if not kind.__module__.startswith(("agentgym.", "builtins")):
        kind = next(base for base in kind.__mro__ if base.__module__.startswith(("agentgym.", "builtins")))
    text = describe(error)
    if isinstance(error, AgentGymError):
        with suppress(BaseException):  # an author's subclass may raise anything
            text = str(error)
    try:
        copy = kind(text)
        pickle.loads(pickle.dumps(copy))
    except Exception:
        return InfrastructureError(text)
    return copy


def sealed(what: str, value: Any) -> bytes:
    """Return a user's object as bytes for another process. Raises `UsageError` if it cannot be pickled."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise UsageError(
            f"{what} cannot be sent to another process ({describe(error)}); use workers='threads', or define it at the "
            "top of a module"
        ) from error


def opened(what: str, data: bytes) -> Any:
    """Return the value that was sealed. Raises `UsageError` if this process does not know its class or function."""
    try:
        return pickle.loads(data)
    except (AttributeError, ImportError) as error:
        raise UsageError(
            f"another process cannot import {what} ({describe(error)}); define it in a module that can be imported, "
            "not in a script or a notebook, or use workers='threads'"
        ) from error
