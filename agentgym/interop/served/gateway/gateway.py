"""`Gateway`: agents' sessions with one token policy."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.core.dialects import Dialect, get_dialect
from agentgym.core.policy import Policy, TokenPolicy
from agentgym.core.trajectory import Trajectory, write_jsonl
from agentgym.interop.served.gateway.request import RequestRefused
from agentgym.interop.served.gateway.row import RowSettings
from agentgym.interop.served.gateway.session import GatewaySession, SessionTask
from agentgym.rollout.limits import Limits


@dataclass(frozen=True)
class GatewaySettings:
    """Configuration of a gateway.

    Args:
        dialect: How the model writes tool calls.
        limits: Limits of a turn: `max_new_tokens`, `max_tokens`, `generation_timeout_s`.
        max_calls: Calls that the prompt allows in a turn.
        out: The file to which ended sessions are appended.
        token: The key of the gateway's owner, who opens and rewards sessions.
        sessions: Maximum number of open sessions.
        idle_s: Seconds without a call after which a session may be ended as failed to make room.
        silent_s: Seconds after which a silent stream sends a comment, so that the client does not time out.
    """

    dialect: str | Dialect = "hermes"
    limits: Limits = field(default_factory=Limits)
    max_calls: int = 1
    out: Path | None = None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    sessions: int = 1024
    idle_s: float = 3600.0
    silent_s: float = 10.0


class Gateway:
    """Records agents' calls to a policy.

    Args:
        policy: Samples the turns with its own settings. Agents' sampling options, such as the temperature, have no
            effect: the log-probabilities must be those of the policy.
        settings: The gateway's configuration.

    Raises:
        UsageError: The policy has no tokens.
    """

    def __init__(self, policy: Policy, settings: GatewaySettings | None = None):
        if not isinstance(policy, TokenPolicy):
            raise UsageError(f"a gateway records tokens, but the policy {policy.name!r} has none; use a model")
        self.policy: TokenPolicy = policy
        self.settings = settings or GatewaySettings()
        dialect = self.settings.dialect
        dialect = get_dialect(dialect) if isinstance(dialect, str) else dialect
        self._rows = RowSettings(policy, dialect, self.settings.limits, self._release, self.settings.max_calls)
        self._sessions: dict[str, GatewaySession] = {}
        self._ended: set[str] = set()
        self._lock = threading.RLock()
        self.base_url = ""
        """The URL, without a trailing slash, while it is served."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the serving thread."""

    def session(self, name: str | None = None, played: SessionTask | None = None) -> GatewaySession:
        """Open a session.

        Args:
            name: Its name, which is the id of its trajectory; by default a new name.
            played: The agent's task.

        Raises:
            UsageError: The name is in use, or cannot be part of a URL.
            InfrastructureError: The maximum number of sessions is open.
        """
        name = name or f"session-{secrets.token_hex(8)}"
        if not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
            raise UsageError(f"a session's name may have letters, digits, '-', '_' and '.'; not {name!r}")
        with self._lock:
            if name in self._sessions:
                raise UsageError(f"session {name!r} is already open")
            if len(self._sessions) >= self.settings.sessions and not self._make_room():
                raise InfrastructureError(f"all {self.settings.sessions} sessions of the gateway are in use")
            url = f"{self.base_url}/s/{name}/v1" if self.base_url else ""
            session = GatewaySession(name, self._rows, played or SessionTask(), self.key_of(name), url)
            self._sessions[name] = session
        return session

    def find(self, name: str) -> GatewaySession:
        """Return an open session. Raises `RequestRefused` for unknown names."""
        session = self._sessions.get(name)
        if session is None:
            raise RequestRefused(f"session {name!r} does not exist or has ended", 404, "no_session")
        return session

    def find_or_open(self, name: str, *, by_owner: bool) -> GatewaySession:
        """Return a session; open it if it does not exist. Only the owner can open one again.

        Raises:
            RequestRefused: The session has ended, and the caller is not the owner.
        """
        with self._lock:
            if name in self._sessions or (name in self._ended and not by_owner):
                return self.find(name)
            return self.session(name)

    def is_owner(self, key: str) -> bool:
        """Whether a key is that of the gateway's owner."""
        return hmac.compare_digest(key.encode(), self.settings.token.encode())

    def key_of(self, name: str) -> str:
        """Return the key of the session of this name: `NAME:HASH`, with a hash keyed by the owner's token (HMAC).

        An agent with the key can speak in its session, but neither reward it nor find out another session's key.
        """
        return f"{name}:{hmac.new(self.settings.token.encode(), name.encode(), hashlib.sha256).hexdigest()}"

    def session_in(self, key: str) -> str | None:
        """Return the name in a session's key (`key_of`), empty for the owner's token; `None` if the key is wrong."""
        name = key.rpartition(":")[0]
        if name and hmac.compare_digest(key.encode(), self.key_of(name).encode()):
            return name
        return "" if self.is_owner(key) else None

    def close_session(self, session: GatewaySession) -> list[Trajectory]:
        """Append the trajectories of an ended session to the file, if there is one, and remove the session.

        Raises:
            UsageError: The file cannot be written. The session is not removed.
        """
        with self._lock:
            if self._sessions.get(session.name) is session:
                if self.settings.out is not None:
                    write_jsonl(self.settings.out, session.trajectories, append=True)
                del self._sessions[session.name]
                self._ended.add(session.name)
        return session.trajectories

    def updated(self, version: int) -> None:
        """Report new weights to policies that have a method `updated`."""
        report = getattr(self.policy, "updated", None)
        if report is not None:
            report(version)

    def close(self) -> None:
        """End all sessions. Sessions without a reward count as failed, so that none goes missing silently."""
        for session in list(self._sessions.values()):
            session.fail("the gateway stopped before the session had a reward")
            self.close_session(session)

    def _release(self, conversation: str) -> None:
        """Let the policy drop a conversation in its sampling thread, since sessions may be ended in another one."""
        try:
            if (loop := self.loop) is not None:
                loop.call_soon_threadsafe(self.policy.release, conversation)
                return
        except RuntimeError:  # the loop is closed: nothing is sampled any more
            pass
        self.policy.release(conversation)

    def _make_room(self) -> bool:
        """End idle sessions as failed. Return whether there were any."""
        before = time.monotonic() - self.settings.idle_s
        idle = [session for session in self._sessions.values() if session.is_idle_since(before)]
        for session in idle:
            session.fail(f"the session had no call for {self.settings.idle_s:g} s")
            self.close_session(session)
        return bool(idle)
