"""`Sessions`: all clients of a server of environments."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from agentgym.endings import Reason
from agentgym.errors import UsageError
from agentgym.foreign.errors import describe
from agentgym.interop.remote.description import Description
from agentgym.interop.remote.wire import BUSY, GONE, PROTOCOL, error_data
from agentgym.rollout.deadlines import OutOfTime
from agentgym.tools.env_server.offer import EnvServing, Offer
from agentgym.tools.env_server.running import Deliver, Reply, Running
from agentgym.tools.env_server.session import Session
from agentgym.tools.env_server.tally import Tally

_LOOKS = 20
"""Requests and sessions are looked at this often in the time that they may take or be idle, ..."""
_LOOK_S = 1.0
"""... and at least this often."""
_REMEMBERED = 4096
_GONE = "there is no such session"
_STOP_S = 1.0
"""Seconds for environments to close when the server stops."""
_log = logging.getLogger(__name__)


class Sessions:
    """The sessions of a server. Requests are answered in the threads that bring them; a thread of its own watches."""

    def __init__(self, offer: Offer, serving: EnvServing):
        self._offer, self._serving = offer, serving
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}
        self._opening = 0
        self._ended: dict[str, str] = {}
        self._running: dict[Running, None] = {}
        self._closing: set[threading.Thread] = set()
        self._stopped = threading.Event()
        self.tally = Tally()
        """Requests by operation and outcome (`ok`, or the kind of error)."""

    def __len__(self) -> int:
        return len(self._sessions)

    def answer(self, content: Mapping[str, Any], deliver: Deliver) -> bool:
        """Deliver the reply to a request, and return whether this thread did, so that it can go on. Never raises.

        If it takes longer than a request may, another thread delivers an error meanwhile, and this returns false; also
        if the client has left.
        """
        running = Running(content, deliver)
        self._running[running] = None
        try:
            reply = self._reply(running, content)
        except BaseException as error:
            reply = {"error": error_data(error)}
        finally:
            del self._running[running]
        if not running.settle():
            if running.op == "open" and running.session is not None:
                self._end(running.session, "its client was told that it could not be opened")
            running.wait()
            return False
        return self._deliver(running, reply)

    def start(self) -> None:
        """Begin to watch: over requests that take too long, and sessions that are idle."""
        threading.Thread(target=self._watch, name="agentgym-sessions", daemon=True).start()

    def close(self) -> None:
        """Close all sessions, and wait a moment for their environments."""
        self._stopped.set()
        for session in list(self._sessions.values()):
            self._end(session, "the server is stopping")
        until = time.monotonic() + _STOP_S
        for closing in list(self._closing):
            closing.join(max(0.0, until - time.monotonic()))

    def _deliver(self, running: Running, reply: Reply, *, is_given_up: bool = False) -> bool:
        error = reply.get("error")
        outcome = "ok" if error is None else error["kind"]
        self.tally.note(running.op, outcome, time.monotonic() - running.began)
        try:
            running.deliver(reply, is_given_up=is_given_up)
        except Exception as error:  # the client has left; if it comes back, it asks again
            _log.debug("a reply could not be delivered: %s", describe(error))
            return False
        return True

    def _reply(self, running: Running, content: Mapping[str, Any]) -> Reply:
        if running.op == "open":
            return self._open(running, content)
        name = str(content.get("session"))
        session = self._sessions.get(name)
        if session is None:
            return _refused(GONE, self._ended.get(name, _GONE))
        if running.op == "close":
            self._end(session, "its client closed the session")
            return {"result": {}}
        running.session = session
        return session.answer(content)

    def _open(self, running: Running, content: Mapping[str, Any]) -> Reply:
        with self._lock:
            if len(self._sessions) + self._opening >= self._serving.sessions or self._stopped.is_set():
                return _refused(BUSY, f"all {self._serving.sessions} sessions of the server are taken")
            self._opening += 1
        try:
            session, description = self._made(content)
            running.session = self._sessions[session.name] = session
            if self._stopped.is_set():
                self._end(session, "the server is stopping")
        finally:
            with self._lock:
                self._opening -= 1
        return {"result": {"session": session.name, "description": description.model_dump(mode="json")}}

    def _made(self, content: Mapping[str, Any]) -> tuple[Session, Description]:
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

    def _watch(self) -> None:
        often = min(_LOOK_S, self._serving.idle_s / _LOOKS, self._serving.request_s / _LOOKS)
        while not self._stopped.wait(often):
            now = time.monotonic()
            for running in [one for one in list(self._running) if now - one.began > self._serving.request_s]:
                self._give_up(running)
            for session in list(self._sessions.values()):
                if now - session.used_at > self._serving.idle_s and not session.is_busy:
                    self._end(session, f"the session was closed after {self._serving.idle_s:g} s without a request")

    def _give_up(self, running: Running) -> None:
        """Answer a request that takes too long. What it runs may go on, so its session is over."""
        if not running.settle():
            return
        reason = Reason.RESET_TIME if running.op in ("open", "reset") else Reason.STEP_TIME
        problem = OutOfTime(reason, f"{running.op!r} on the server", self._serving.request_s)
        if running.session is not None:
            self._end(running.session, "a request of the session took too long, so it was closed", is_lost=True)
        self._deliver(running, {"error": error_data(problem)}, is_given_up=True)

    def _end(self, session: Session, why: str, *, is_lost: bool = False) -> None:
        """End a session; its environment is closed in a thread, since that may take long."""
        with self._lock:
            if self._sessions.pop(session.name, None) is None:
                return
            self._ended[session.name] = session.over = why
            if len(self._ended) > _REMEMBERED:
                del self._ended[next(iter(self._ended))]
            closing = threading.Thread(target=partial(self._close, session, is_lost), daemon=True)
            self._closing.add(closing)
        try:
            closing.start()
        except RuntimeError:  # the machine has no more threads
            with self._lock:
                self._closing.discard(closing)
            self._close(session, is_lost=True)

    def _close(self, session: Session, is_lost: bool) -> None:
        try:
            session.give_up()
            session.close(0.0 if is_lost else self._serving.request_s)
        finally:
            with self._lock:
                self._closing.discard(threading.current_thread())


def _refused(kind: str, message: str) -> Reply:
    return {"error": {"kind": kind, "message": message}}
