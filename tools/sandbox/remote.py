"""Sandboxes on another machine: the same agent and the same frames, over HTTP."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym.errors import AgentGymError, InfrastructureError, UsageError
from agentgym.tools.sandbox import trees
from agentgym.tools.sandbox.agent import wire
from agentgym.tools.sandbox.backend import Launched, ProbeResult, SandboxStartFailed
from agentgym.tools.sandbox.protection import Protection, ProtectionLevel, Threat
from agentgym.tools.sandbox.pump import Pump, SandboxGone, decode, hello
from agentgym.tools.sandbox.remote_client import Remote
from agentgym.tools.sandbox.spec import SandboxSpec, SandboxTier

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
