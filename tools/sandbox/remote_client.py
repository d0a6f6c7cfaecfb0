"""The connection to a machine that runs `agentgym serve sandbox`: frames of the agent's protocol over HTTP."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from agentgym.errors import InfrastructureError, UsageError, require
from agentgym.tools.retrying import asked_pause_s
from agentgym.tools.sandbox.pump import SandboxGone, decode
from agentgym.tools.sandbox.spec import SandboxSpec

if TYPE_CHECKING:
    import httpx

_CONNECT_S = 10.0
_CALL_S = 30.0
_CREATE_S = 180.0
_IDLE = 4
"""Connections kept open though nothing is asked: one more costs less to make than one for every sandbox to keep."""
_GRACE_S = 60.0
"""Above a run's own limit: the server ends the run itself."""
_REFUSED = (400, 401, 403, 411, 413, 414, 422, 431)
"""What is wrong with a request that the caller made, and will be wrong again."""
_BUSY = (408, 429, 503)
_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 30.0


class Remote:
    """A server and the sandboxes opened there. Tells it from time to time that they are still wanted."""

    def __init__(self, url: str, token: str, busy_s: float = 30.0) -> None:
        """Remember where the server is.

        Args:
            url: Such as `http://host:port`.
            token: What every request carries.
            busy_s: How long to go on asking a server that says that it is too busy.
        """
        require("httpx", "serve")
        import httpx

        if not url.startswith(("http://", "https://")):
            raise UsageError(f"the server must be given as http://host:port, not {url!r}")
        if not token.isascii() or not token.isprintable():
            raise UsageError("the server's token has characters that no token has")
        self.url = url.rstrip("/")
        self._busy_s = busy_s
        self._client = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(_CALL_S, connect=_CONNECT_S),
            # Idle connections are given up long before the server would close them under a request.
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
        """Return what the server says of itself: tier, notes, limits."""
        about = self._about
        if about is None:
            about = self._about = dict(self._call("GET", "/").json())
        return about

    def open(self, spec: SandboxSpec) -> dict[str, str]:
        """Open a sandbox there; return its `id`, `workdir` and `notes`. Files are not part of this."""
        wanted = {
            "limits": spec.limits.to_dict(),
            "image": spec.image,
            "workdir": spec.workdir,
            "environment": dict(spec.environment),
        }
        self.about()
        opened = self._call("POST", "/sandboxes", json=wanted, timeout=_CREATE_S).json()
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
            InfrastructureError: If the server is not there, or closed the sandbox.
        """
        header, _ = decode(frame)
        wall_s = header.get("limits", {}).get("wall_s", 0)
        answer = self._call("POST", f"/sandboxes/{name}/frames", content=frame, timeout=wall_s + _GRACE_S)
        return answer.content

    def close_sandbox(self, name: str) -> None:
        """Close a sandbox; if the server cannot be reached, it closes it by itself after a while."""
        with self._lock:
            self._open.discard(name)
        try:
            self._call("DELETE", f"/sandboxes/{name}")
        except (InfrastructureError, SandboxGone):
            return

    def close(self) -> None:
        """Close all that is open and the connection."""
        self._stop.set()
        for name in list(self._open):
            self.close_sandbox(name)
        with self._calls:
            self._closed = True
            self._calls.wait_for(lambda: self._under_way == 0, _CALL_S)
        self._client.close()

    def renew(self) -> float:
        """Tell the server that the open sandboxes are still wanted; return after how long to do it again."""
        with self._lock:
            names = list(self._open)
        try:
            if names:
                self._call("POST", "/renew", json={"ids": names})
            return self.about()["silent_s"] / 4
        except (InfrastructureError, UsageError):
            # The next request will tell whoever uses the sandboxes.
            return 1.0

    def _call(self, method: str, path: str, *, timeout: float = _CALL_S, **content: Any) -> httpx.Response:
        with self._calls:
            if self._closed:
                raise InfrastructureError(f"the connection to {self.url} was closed")
            self._under_way += 1
        try:
            answer = self._answered(method, path, timeout, content)
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

    def _answered(self, method: str, path: str, timeout_s: float, content: dict[str, Any]) -> httpx.Response:
        """Return the server's answer; ask again for a while if it says that it is too busy now."""
        gives_up = time.monotonic() + self._busy_s
        pause_s = _PAUSE_S
        while True:
            answer = self._asked(method, path, timeout_s, content)
            if answer.status_code not in _BUSY:
                return answer
            pause_s = min(max(2 * pause_s, asked_pause_s(answer)), _LONGEST_PAUSE_S)
            if self._stop.is_set() or time.monotonic() + pause_s > gives_up:
                return answer
            self._stop.wait(pause_s)

    def _asked(self, method: str, path: str, timeout_s: float, content: dict[str, Any]) -> httpx.Response:
        import httpx

        patience = httpx.Timeout(timeout_s, connect=_CONNECT_S)
        try:
            return self._client.request(method, path, timeout=patience, **content)
        except httpx.HTTPError as error:
            raise InfrastructureError(f"{method} {self.url}{path}: {type(error).__name__}: {error}") from error


def _renew_always(remote: weakref.ref[Remote], stop: threading.Event) -> None:
    """Renew until the backend is closed or forgotten."""
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
