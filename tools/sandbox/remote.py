"""Sandboxes on another machine: the same agent and the same frames, over HTTP."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.base.errors import AgentGymError, InfrastructureError, UsageError, require
from agentgym.base.retries import retry_after_s
from agentgym.tools.sandbox import folders as trees
from agentgym.tools.sandbox.agent import wire
from agentgym.tools.sandbox.backend import (
    Launched,
    ProbeResult,
    Protection,
    ProtectionLevel,
    SandboxStartFailed,
    Threat,
)
from agentgym.tools.sandbox.pump import Pump, SandboxGone, decode, hello
from agentgym.tools.sandbox.spec import SandboxSpec, SandboxTier

if TYPE_CHECKING:
    import httpx


_CONNECT_S = 10.0
_CALL_S = 30.0
_CREATE_S = 180.0
_IDLE = 4
"""Idle connections kept open: opening another costs less than keeping one per sandbox."""
_GRACE_S = 60.0
"""Added to a run's own limit: the server stops the run itself."""
_REFUSED = (400, 401, 403, 411, 413, 414, 422, 431)
"""Statuses of invalid requests, which would fail again."""
_BUSY = (408, 429, 503)
_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 30.0


class Remote:
    """A server and the sandboxes opened there; renews their leases periodically."""

    def __init__(self, url: str, token: str, busy_s: float = 30.0) -> None:
        """Configure the server.

        Args:
            url: For example `http://host:port`.
            token: Sent with every request.
            busy_s: Seconds to keep retrying while the server reports that it is busy.
        """
        require("httpx", "serve")
        import httpx

        if not url.startswith(("http://", "https://")):
            raise UsageError(f"the server must be given as http://host:port, not {url!r}")
        if not token.isascii() or not token.isprintable():
            raise UsageError("the server's token contains characters that are not allowed in a token")
        self.url = url.rstrip("/")
        self._busy_s = busy_s
        self._client = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(_CALL_S, connect=_CONNECT_S),
            # Idle connections are closed long before the server would close them during a request.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=_IDLE, keepalive_expiry=15),
            trust_env=False,
        )
        self._open: set[str] = set()
        self._lock = threading.Lock()
        self._calls = threading.Condition()
        self._under_way = 0
        self._closed = False
        self._renewing: threading.Thread | None = None
        self._stop = threading.Event()
        self._about: dict[str, Any] | None = None

    def about(self) -> dict[str, Any]:
        """Return the server's description: tier, notes, limits."""
        about = self._about
        if about is None:
            about = self._about = dict(self._call("GET", "/").json())
        return about

    def open(self, spec: SandboxSpec) -> dict[str, str]:
        """Open a sandbox there; return its `id`, `workdir` and `notes`. Does not send the template."""
        content = {
            "limits": spec.limits.to_dict(),
            "image": spec.image,
            "workdir": spec.workdir,
            "environment": dict(spec.environment),
        }
        self.about()
        opened = self._call("POST", "/sandboxes", json=content, timeout=_CREATE_S).json()
        with self._lock:
            self._open.add(opened["id"])
            if self._renewing is None:
                self._renewing = threading.Thread(
                    target=_renew_always, args=(weakref.ref(self), self._stop), name="agentgym-renew", daemon=True
                )
                self._renewing.start()
        return opened

    def exchange(self, name: str, frame: bytes) -> bytes:
        """Send a request to a sandbox and return the answer.

        Raises:
            SandboxGone: If the run ended its own sandbox.
            InfrastructureError: If the server is unreachable, or closed the sandbox.
        """
        header, _ = decode(frame)
        wall_s = header.get("limits", {}).get("wall_s", 0)
        answer = self._call("POST", f"/sandboxes/{name}/frames", content=frame, timeout=wall_s + _GRACE_S)
        return answer.content

    def close_sandbox(self, name: str) -> None:
        """Close a sandbox; if the server is unreachable, it closes the sandbox itself after a while."""
        with self._lock:
            self._open.discard(name)
        try:
            self._call("DELETE", f"/sandboxes/{name}")
        except (InfrastructureError, SandboxGone):
            return

    def close(self) -> None:
        """Close all open sandboxes and the connection."""
        self._stop.set()
        for name in list(self._open):
            self.close_sandbox(name)
        with self._calls:
            self._closed = True
            self._calls.wait_for(lambda: self._under_way == 0, _CALL_S)
        self._client.close()

    def renew(self) -> float:
        """Renew the leases of the open sandboxes; return the seconds until the next renewal."""
        with self._lock:
            names = list(self._open)
        try:
            if names:
                self._call("POST", "/renew", json={"ids": names})
            return self.about()["silent_s"] / 4
        except (InfrastructureError, UsageError):
            # The next request of a sandbox raises the error.
            return 1.0

    def _call(self, method: str, path: str, *, timeout: float = _CALL_S, **content: Any) -> httpx.Response:
        with self._calls:
            if self._closed:
                raise InfrastructureError(f"the connection to {self.url} was closed")
            self._under_way += 1
        try:
            answer = self._send_with_retries(method, path, timeout, content)
        finally:
            with self._calls:
                self._under_way -= 1
                self._calls.notify_all()
        if answer.is_success:
            return answer
        problem = f"{self.url} says: {_detail(answer)}"
        if answer.status_code == 410:
            raise SandboxGone(problem)
        if answer.status_code in _REFUSED:
            raise UsageError(problem)
        raise InfrastructureError(problem)

    def _send_with_retries(self, method: str, path: str, timeout_s: float, content: dict[str, Any]) -> httpx.Response:
        """Return the server's answer, retrying for a while if it is busy."""
        gives_up = time.monotonic() + self._busy_s
        pause_s = _PAUSE_S
        while True:
            answer = self._send(method, path, timeout_s, content)
            if answer.status_code not in _BUSY:
                return answer
            pause_s = min(max(2 * pause_s, retry_after_s(answer.headers)), _LONGEST_PAUSE_S)
            if self._stop.is_set() or time.monotonic() + pause_s > gives_up:
                return answer
            self._stop.wait(pause_s)

    def _send(self, method: str, path: str, timeout_s: float, content: dict[str, Any]) -> httpx.Response:
        import httpx

        patience = httpx.Timeout(timeout_s, connect=_CONNECT_S)
        try:
            return self._client.request(method, path, timeout=patience, **content)
        except httpx.HTTPError as error:
            raise InfrastructureError(f"{method} {self.url}{path}: {type(error).__name__}: {error}") from error


def _renew_always(remote: weakref.ref[Remote], stop: threading.Event) -> None:
    """Renew until the backend is closed or garbage-collected."""
    pause_s = 1.0
    while not stop.wait(pause_s):
        alive = remote()
        if alive is None:
            return
        pause_s = alive.renew()
        del alive


def _detail(answer: httpx.Response) -> str:
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = answer.text[:300]
    return f"{detail} ({answer.status_code})"


URL = "AGENTGYM_SANDBOX_URL"
TOKEN = "AGENTGYM_SANDBOX_TOKEN"
TOKEN_FILE = "AGENTGYM_SANDBOX_TOKEN_FILE"


class RemoteBackend:
    """Opens sandboxes on a server, with the protections that the server reports."""

    tier = SandboxTier.REMOTE

    def __init__(self, url: str | None = None, token: str | None = None, *, busy_s: float = 30.0) -> None:
        """Configure the server; the first use connects.

        Args:
            url: For example `http://host:port`; by default `AGENTGYM_SANDBOX_URL`.
            token: By default `AGENTGYM_SANDBOX_TOKEN`, or the content of the file `AGENTGYM_SANDBOX_TOKEN_FILE`.
            busy_s: Seconds to keep retrying while the server is full or busy.
        """
        self._url = url or os.environ.get(URL, "")
        self._token = token
        self._busy_s = busy_s
        self._remote: Remote | None = None
        self._lock = threading.Lock()
        self._process = os.getpid()

    @property
    def protections(self) -> Mapping[Threat, Protection]:
        """The protections that the server reports."""
        reported = self._connected().about()["protections"]
        return {Threat(threat): Protection(ProtectionLevel(held), how) for threat, (held, how) in reported.items()}

    def probe(self) -> ProbeResult:
        """Ask the server what it offers."""
        if not self._url:
            return ProbeResult(
                self.tier, False, f"no server is configured: set {URL} and {TOKEN}, or use RemoteBackend(url, token)"
            )
        try:
            about = self._connected().about()
            return ProbeResult(self.tier, True, f"{self._url} offers {about['notes']}", self.protections)
        except (AgentGymError, SandboxGone, LookupError, ValueError, TypeError) as error:
            return ProbeResult(self.tier, False, str(error))

    def start(self, spec: SandboxSpec) -> Launched:
        """Open a sandbox on the server."""
        if spec.readable:
            raise UsageError("a remote sandbox cannot see folders of this machine: readable must be empty")
        if spec.preload:
            raise UsageError("a remote server does not preload modules for clients: preload must be empty")
        try:
            remote = self._connected()
            opened = remote.open(spec)
        except (InfrastructureError, SandboxGone) as error:
            raise SandboxStartFailed(str(error)) from error
        name = opened["id"]
        try:
            _send_template(remote, name, spec)
        except BaseException:
            remote.close_sandbox(name)
            raise
        pump = Pump(lambda frame: remote.exchange(name, frame), f"remote-{name[:8]}", first=hello())

        def kill() -> None:
            # A forked child has copies of its parent's sandboxes and must not close them.
            if os.getpid() == self._process:
                pump.close()
                threading.Thread(target=remote.close_sandbox, args=(name,), daemon=True).start()

        return Launched(pump.endpoint, kill, opened["workdir"], None, f"at {self._url}: {opened['notes']}")

    def close(self) -> None:
        """Close all sandboxes opened on the server."""
        with self._lock:
            remote, self._remote = self._remote, None
        if remote is not None and os.getpid() == self._process:
            remote.close()

    def _connected(self) -> Remote:
        with self._lock:
            if self._remote is None:
                if not self._url:
                    raise UsageError(f"no server is configured: set {URL}, or use RemoteBackend(url, token)")
                self._remote = Remote(self._url, self._token or _token_from_environment(), self._busy_s)
            return self._remote


def _token_from_environment() -> str:
    if TOKEN_FILE in os.environ:
        path = os.environ[TOKEN_FILE]
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise UsageError(f"{TOKEN_FILE}: cannot read {path!r}: {error.strerror}") from None
    if TOKEN not in os.environ:
        raise UsageError(f"the server needs a token: set {TOKEN} or {TOKEN_FILE}")
    return os.environ[TOKEN]


def _send_template(remote: Remote, name: str, spec: SandboxSpec) -> None:
    if spec.template is None:
        return
    header: dict[str, Any] = {"op": "unpack", "path": "."}
    try:
        answer, _ = decode(remote.exchange(name, wire.encode(header, [trees.packed(spec.template)])))
    except SandboxGone as error:
        raise SandboxStartFailed(str(error)) from error
    if "error" in answer:
        raise SandboxStartFailed(f"cannot unpack the template: {answer.get('message')}")
