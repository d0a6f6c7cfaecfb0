"""`Sessions`: all clients of a server of environments."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any

from agentgym.endings import Reason
from agentgym.engine.threads import blocking
from agentgym.errors import UsageError
from agentgym.interop.remote.description import Description
from agentgym.interop.remote.wire import BUSY, GONE, PROTOCOL, error_data
from agentgym.rollout.deadlines import OutOfTime
from agentgym.tools.env_server.metrics import Metrics
from agentgym.tools.env_server.offer import EnvServing, Offer
from agentgym.tools.env_server.session import Session

Reply = dict[str, Any]

_LOOKS = 20
"""Sessions are looked at this often in the time that they may be idle, ..."""
_LOOK_S = 1.0
"""... and at least this often."""
_REMEMBERED = 4096
_GONE = "there is no such session"
_STOP_S = 1.0
"""Seconds for environments to close when the server stops."""


class Sessions:
    """The sessions of a server. Use it in the event loop's thread."""

    def __init__(self, offer: Offer, serving: EnvServing):
        self._offer, self._serving = offer, serving
        self._sessions: dict[str, Session] = {}
        self._opening = 0
        self._ended: dict[str, str] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_stopped = False
        self.metrics = Metrics(self.__len__)

    def __len__(self) -> int:
        return len(self._sessions)

    async def answer(self, content: Mapping[str, Any]) -> Reply:
        """Return the reply to a request. If it takes longer than it may, that is an error, and its session is over."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._serving.request_s):
                reply = await self._reply(content)
        except TimeoutError:
            reply = self._late(content)
        except Exception as error:
            reply = {"error": error_data(error)}
        self.metrics.note(content.get("op"), reply, time.monotonic() - began)
        return reply

    async def watch(self) -> None:
        """Close sessions that are idle, for ever."""
        idle_s = self._serving.idle_s
        while True:
            await asyncio.sleep(min(_LOOK_S, idle_s / _LOOKS))
            for session in list(self._sessions.values()):
                if time.monotonic() - session.used_at > idle_s and not session.is_busy:
                    self._end(session, f"the session was closed after {idle_s:g} s without a request")

    async def close(self) -> None:
        """Close all sessions, and wait a moment for their environments."""
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
        # If that takes too long, it goes on, and its session ends when it is idle.
        return await asyncio.shield(self._start(self._opened(content)))

    async def _opened(self, content: Mapping[str, Any]) -> Reply:
        try:
            made = await blocking.run(partial(self._made, content))
        finally:
            self._opening -= 1
        if not isinstance(made, tuple):
            return {"error": error_data(made)}
        session, description = made
        self._sessions[session.name] = session
        if self._is_stopped:
            self._end(session, "the server is stopping")
        return {"result": {"session": session.name, "description": description.model_dump(mode="json")}}

    def _made(self, content: Mapping[str, Any]) -> tuple[Session, Description] | BaseException:
        try:
            return self._make(content)
        except BaseException as error:  # an environment may raise anything, also what would end the event loop
            return error

    def _make(self, content: Mapping[str, Any]) -> tuple[Session, Description]:
        if content.get("protocol") != PROTOCOL:
            raise UsageError(
                f"this server speaks protocol {PROTOCOL}, not {content.get('protocol')!r}; update agentgym"
            )
        name, serving, is_revealed = self._offer.named(content.get("env")), self._serving, self._offer.is_revealed
        env = self._offer.make(name, content.get("arguments") or {})
        try:
            description = Description.of(
                name, env, is_revealed=is_revealed, request_s=serving.request_s, request_bytes=serving.request_bytes
            )
        except BaseException:
            env.close()
            raise
        return Session(secrets.token_urlsafe(16), env, is_revealed=is_revealed), description

    def _late(self, content: Mapping[str, Any]) -> Reply:
        op, session = content.get("op"), self._sessions.get(str(content.get("session")))
        if session is not None:
            self._end(session, "a request of the session took too long, so it was closed", is_lost=True)
        reason = Reason.RESET_TIME if op in ("open", "reset") else Reason.STEP_TIME
        return {"error": error_data(OutOfTime(reason, f"{op!r} on the server", self._serving.request_s))}

    def _end(self, session: Session, why: str, *, is_lost: bool = False) -> None:
        """End a session; its environment is closed meanwhile, since that may take long."""
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
