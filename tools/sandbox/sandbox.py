"""The synchronous interface to a sandbox."""

from __future__ import annotations

import threading
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from agentgym.engine.drive import run_now
from agentgym.tools.sandbox.answers import DirectoryEntry
from agentgym.tools.sandbox.backend import Launched
from agentgym.tools.sandbox.connection import AsyncConnection, BlockingConnection
from agentgym.tools.sandbox.core import AsyncSandbox
from agentgym.tools.sandbox.limits import SandboxLimits
from agentgym.tools.sandbox.result import Result
from agentgym.tools.sandbox.session import AsyncSandboxSession, SandboxSession
from agentgym.tools.sandbox.spec import SandboxSpec, SandboxTier
from agentgym.tools.sandbox.trees import WorkspaceSnapshot

_T = TypeVar("_T")


class Sandbox:
    """A place where model-written code runs and keeps files; see `AsyncSandbox` for what each method does."""

    def __init__(self, core: AsyncSandbox):
        self.core = core
        """The same sandbox with coroutines that never suspend."""
        self._lock = threading.RLock()

    spec = property(lambda self: self.core.spec)
    tier = property(lambda self: self.core.tier)
    notes = property(lambda self: self.core.notes)
    workdir = property(lambda self: self.core.workdir)

    def exec(
        self,
        argv: Sequence[str] | None = None,
        *,
        code: str | bytes | None = None,
        stdin: str | bytes = b"",
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        limits: SandboxLimits | None = None,
    ) -> Result:
        """Run a program, or Python source, to completion."""
        return self.now(self.core.exec(argv, code=code, stdin=stdin, cwd=cwd, env=env, limits=limits))

    def python(self, limits: SandboxLimits | None = None) -> SandboxSession:
        """Open a live Python session."""
        return SandboxSession(self.now(self.core.python(limits)), self.now)

    def bash(self, limits: SandboxLimits | None = None) -> SandboxSession:
        """Open a live bash session."""
        return SandboxSession(self.now(self.core.bash(limits)), self.now)

    def read(self, path: str, max_bytes: int = 1_000_000) -> bytes:
        """Return the content of a regular file."""
        return self.now(self.core.read(path, max_bytes))

    def write(self, path: str, data: str | bytes, mode: int = 0o644) -> None:
        """Write a file."""
        self.now(self.core.write(path, data, mode))

    def list(self, path: str = ".", depth: int = 1, max_entries: int = 1000) -> list[DirectoryEntry]:
        """List a folder."""
        return self.now(self.core.list(path, depth, max_entries))

    def remove(self, path: str) -> None:
        """Remove a file or folder."""
        self.now(self.core.remove(path))

    def mkdir(self, path: str) -> None:
        """Create a folder."""
        self.now(self.core.mkdir(path))

    def upload(self, tree: Path | Mapping[str, bytes], path: str = ".") -> None:
        """Copy files into the workspace."""
        self.now(self.core.upload(tree, path))

    def download(self, path: str = ".", max_bytes: int = 100_000_000) -> dict[str, bytes]:
        """Return the regular files of a folder."""
        return self.now(self.core.download(path, max_bytes))

    def snapshot(self) -> WorkspaceSnapshot:
        """Return the files of the workspace as they are now."""
        return self.now(self.core.snapshot())

    def restore(self, snapshot: WorkspaceSnapshot) -> None:
        """Restore the files of a snapshot."""
        self.now(self.core.restore(snapshot))

    def health(self) -> bool:
        """Whether the sandbox is alive and can still run programs."""
        return self.now(self.core.health())

    def close(self) -> None:
        """Kill everything in the sandbox. Safe to call twice, and while another thread waits for a run."""
        run_now(self.core.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def now(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run one of the core's coroutines; one at a time."""
        with self._lock:
            return run_now(work)


def connect(launched: Launched, spec: SandboxSpec, tier: SandboxTier, notes: str) -> Sandbox:
    """Return a sandbox for an agent that has sent its hello."""
    return Sandbox(AsyncSandbox(launched, spec, tier, notes, BlockingConnection(launched.endpoint)))


def connect_async(launched: Launched, spec: SandboxSpec, tier: SandboxTier, notes: str) -> AsyncSandbox:
    """Return a sandbox for an agent that has sent its hello, for the running event loop."""
    return AsyncSandbox(launched, spec, tier, notes, AsyncConnection(launched.endpoint))


__all__ = ["AsyncSandbox", "AsyncSandboxSession", "Sandbox", "SandboxSession", "connect", "connect_async"]
