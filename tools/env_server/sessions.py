"""`EnvSessions`: all open sessions of an environment server."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from agentgym.base.errors import UsageError
from agentgym.core.endings import Reason
from agentgym.core.engine.threads import blocking
from agentgym.interop.served.wire import BUSY, GONE, OPERATIONS, PROTOCOL, Description, error_data
from agentgym.rollout.limits import OutOfTime
from agentgym.tools.env_server.offer import EnvOffer, EnvServing
from agentgym.tools.env_server.session import EnvSession


class Metrics:
    """The counts of one server.

    Args:
        sessions: Returns the number of open sessions.
    """

    def __init__(self, sessions: Callable[[], int]):
        self._registry = registry = CollectorRegistry()
        Gauge("agentgym_sessions", "Open sessions.", registry=registry).set_function(sessions)
        self._requests = Counter("agentgym_requests", "Requests by outcome.", ("op", "outcome"), registry=registry)
        self._seconds = Counter("agentgym_request_seconds", "Seconds spent on requests.", ("op",), registry=registry)

    def note(self, op: Any, reply: Mapping[str, Any], seconds: float) -> None:
        """Count a request. Its outcome is `ok` or the kind of error."""
        name = op if op in OPERATIONS else "unknown"
        self._requests.labels(name, reply["error"]["kind"] if "error" in reply else "ok").inc()
        self._seconds.labels(name).inc(seconds)

    def as_text(self) -> bytes:
        """Return all counts as text."""
        return generate_latest(self._registry)


Reply = dict[str, Any]

_CHECKS = 20
"""Checks for idleness within the idle time, ..."""
_CHECK_S = 1.0
"""... with at most this many seconds between them."""
_REMEMBERED = 4096
_GONE = "there is no such session"
_STOP_S = 1.0
"""Seconds for environments to close when the server stops."""


class EnvSessions:
    """The sessions of a server. Use it in the event loop's thread."""

    def __init__(self, offer: EnvOffer, serving: EnvServing):
        self._offer, self._serving = offer, serving
        self._sessions: dict[str, EnvSession] = {}
        self._opening = 0
        self._ended: dict[str, str] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_stopped = False
        self.metrics = Metrics(self.__len__)

    def __len__(self) -> int:
        return len(self._sessions)

    async def answer(self, content: Mapping[str, Any]) -> Reply:
        """Return the reply to a request. A request that exceeds its time limit is an error and ends its session."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._serving.request_s):
                reply = await self._reply(content)
        except TimeoutError:
            reply = self._time_out(content)
        except Exception as error:
            reply = {"error": error_data(error)}
        self.metrics.note(content.get("op"), reply, time.monotonic() - began)
        return reply

    async def watch(self) -> None:
        """Close idle sessions, forever."""
        idle_s = self._serving.idle_s
        while True:
            await asyncio.sleep(min(_CHECK_S, idle_s / _CHECKS))
            for session in list(self._sessions.values()):
                if time.monotonic() - session.used_at > idle_s and not session.is_busy:
                    self._end(session, f"the session was closed after {idle_s:g} s without a request")

    async def close(self) -> None:
        """Close all sessions and wait up to `_STOP_S` for their environments."""
        self._is_stopped = True
        for session in list(self._sessions.values()):
            self._end(session, "the server is stopping")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOP_S)

    async def _reply(self, content: Mapping[str, Any]) -> Reply:
        op, name = content.get("op"), str(content.get("session"))
        if op == "open":
            return await self._open(content)
        session = self._sessions.get(name)
        if session is None:
            return _refused(GONE, self._ended.get(name, _GONE))
        if op == "close":
            self._end(session, "its client closed the session")
            return {"result": {}}
        return await session.answer(content)

    async def _open(self, content: Mapping[str, Any]) -> Reply:
        if len(self._sessions) + self._opening >= self._serving.sessions or self._is_stopped:
            return _refused(BUSY, f"all {self._serving.sessions} sessions of the server are taken")
        self._opening += 1
        # After a timeout it continues in the background, and the session ends once it is idle.
        return await asyncio.shield(self._start(self._make_session(content)))

    async def _make_session(self, content: Mapping[str, Any]) -> Reply:
        try:
            result = await blocking.run(partial(self._try_make, content))
        finally:
            self._opening -= 1
        if not isinstance(result, tuple):
            return {"error": error_data(result)}
        session, description = result
        self._sessions[session.name] = session
        if self._is_stopped:
            self._end(session, "the server is stopping")
        return {"result": {"session": session.name, "description": description.model_dump(mode="json")}}

    def _try_make(self, content: Mapping[str, Any]) -> tuple[EnvSession, Description] | BaseException:
        try:
            return self._make(content)
        except BaseException as error:  # an environment may raise anything, even what would end the event loop
            return error

    def _make(self, content: Mapping[str, Any]) -> tuple[EnvSession, Description]:
        if content.get("protocol") != PROTOCOL:
            raise UsageError(
                f"this server speaks protocol {PROTOCOL}, not {content.get('protocol')!r}; update agentgym"
            )
        name, serving, is_revealed = self._offer.resolve(content.get("env")), self._serving, self._offer.is_revealed
        env = self._offer.make(name, content.get("arguments") or {})
        try:
            description = Description.of(
                name, env, is_revealed=is_revealed, request_s=serving.request_s, request_bytes=serving.request_bytes
            )
        except BaseException:
            env.close()
            raise
        return EnvSession(secrets.token_urlsafe(16), env, self._offer.key), description

    def _time_out(self, content: Mapping[str, Any]) -> Reply:
        op, session = content.get("op"), self._sessions.get(str(content.get("session")))
        if session is not None:
            self._end(session, "the session was closed because a request took too long", is_lost=True)
        reason = Reason.RESET_TIME if op in ("open", "reset") else Reason.STEP_TIME
        return {"error": error_data(OutOfTime(reason, f"{op!r} on the server", self._serving.request_s))}

    def _end(self, session: EnvSession, why: str, *, is_lost: bool = False) -> None:
        """End a session and close its environment in the background, since that may take long."""
        del self._sessions[session.name]
        self._ended[session.name] = session.over = why
        if len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]
        self._start(session.close(0.0 if is_lost else self._serving.request_s))

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _refused(kind: str, message: str) -> Reply:
    return {"error": {"kind": kind, "message": message}}
