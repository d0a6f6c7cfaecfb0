"""`Sessions`: all clients of a server of environments."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agentgym.endings import Reason
from agentgym.engine.threads import blocking
from agentgym.errors import AgentGymError, UsageError
from agentgym.interop.remote.description import Description
from agentgym.interop.remote.wire import BUSY, GONE, PROTOCOL, error_data
from agentgym.rollout.deadlines import within
from agentgym.tools.env_server.offer import EnvServing, Offer
from agentgym.tools.env_server.session import Session

_SWEEPS = 20
"""Sessions are looked at this often in the time that one may be idle."""
_REMEMBERED = 4096
_GONE = "there is no such session"


class Sessions:
    """The sessions of a server. Use only in the event loop's thread."""

    def __init__(self, offer: Offer, serving: EnvServing):
        self._offer, self._serving = offer, serving
        self._sessions: dict[str, Session] = {}
        self._opening = 0
        self._ended: dict[str, str] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.counts: Counter[tuple[str, str]] = Counter()
        """Number of requests by operation and outcome (`ok`, or the kind of error)."""
        self.busy_s: Counter[str] = Counter()
        """Seconds spent on requests by operation."""

    def __len__(self) -> int:
        return len(self._sessions)

    async def answer(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply to a request. Never raises, except if the server ends."""
        began, op = time.monotonic(), content.get("op")
        reply = await self._reply(op, content)
        known = op if isinstance(op, str) and len(op) < 20 else "unknown"
        error = reply.get("error")
        self.counts[known, "ok" if error is None else error["kind"]] += 1
        self.busy_s[known] += time.monotonic() - began
        return reply

    async def _reply(self, op: Any, content: Mapping[str, Any]) -> dict[str, Any]:
        if op == "open":
            return await self._open(content)
        name = str(content.get("session"))
        session = self._sessions.get(name)
        if session is None:
            return _refused(GONE, self._ended.get(name, _GONE))
        if op == "close":
            self._end(session, "its client closed the session")
            return {"result": {}}
        reply = await session.answer(content)
        if session.is_lost and name in self._sessions:
            self._end(session, "a request of the session took too long, so it was closed")
        return reply

    async def _open(self, content: Mapping[str, Any]) -> dict[str, Any]:
        if len(self._sessions) + self._opening >= self._serving.sessions:
            return _refused(BUSY, f"all {self._serving.sessions} sessions of the server are taken")
        self._opening += 1
        try:
            return {"result": await self._opened(content)}
        except Exception as error:
            return {"error": error_data(error)}
        finally:
            self._opening -= 1

    async def _opened(self, content: Mapping[str, Any]) -> dict[str, Any]:
        if content.get("protocol") != PROTOCOL:
            raise UsageError(
                f"this server speaks protocol {PROTOCOL}, not {content.get('protocol')!r}; update agentgym"
            )
        name = self._offer.named(content.get("env"))
        arguments, seconds = content.get("arguments") or {}, self._serving.request_s
        made = blocking.run(lambda: self._made(name, arguments))
        session, description = await within(made, seconds, Reason.RESET_TIME, "making an environment on the server")
        self._sessions[session.name] = session
        return {"session": session.name, "description": description.model_dump(mode="json")}

    def _made(self, name: str, arguments: Any) -> tuple[Session, Description]:
        env, revealed, seconds = self._offer.make(name, arguments), self._offer.is_revealed, self._serving.request_s
        try:
            description = Description.of(name, env, is_revealed=revealed, request_s=seconds)
        except BaseException:
            env.close()
            raise
        return Session(secrets.token_urlsafe(16), env, is_revealed=revealed, request_s=seconds), description

    async def sweep(self) -> None:
        """Close idle sessions, until cancelled."""
        while True:
            await asyncio.sleep(self._serving.idle_s / _SWEEPS)
            before = time.monotonic() - self._serving.idle_s
            for session in [one for one in self._sessions.values() if one.used_at < before and not one.is_busy]:
                self._end(session, f"the session was closed after {self._serving.idle_s:g} s without a request")

    def _end(self, session: Session, why: str) -> None:
        del self._sessions[session.name]
        self._ended[session.name] = why
        if len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]
        closing = asyncio.create_task(session.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all sessions."""
        for session in list(self._sessions.values()):
            self._end(session, "the server is stopping")
        with suppress(AgentGymError):
            await asyncio.gather(*self._closing, return_exceptions=True)


def _refused(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"kind": kind, "message": message}}
