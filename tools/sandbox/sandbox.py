"""The synchronous interface to a sandbox."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from agentgym.base.errors import UsageError
from agentgym.core.engine.drive import run_now
from agentgym.tools.sandbox import answers
from agentgym.tools.sandbox import folders as trees
from agentgym.tools.sandbox.agent.wire import Frame, Header
from agentgym.tools.sandbox.answers import DirectoryEntry
from agentgym.tools.sandbox.backend import Launched, SandboxLost
from agentgym.tools.sandbox.connection import AgentConnection, AsyncConnection, BlockingConnection, ConnectionBroken
from agentgym.tools.sandbox.folders import WorkspaceSnapshot
from agentgym.tools.sandbox.result import Result
from agentgym.tools.sandbox.spec import SandboxLimits, SandboxSpec, SandboxTier

_TRIES = 3


class SessionHost(Protocol):
    """The part of a sandbox that a session uses."""

    lost: str

    @property
    def spec(self) -> SandboxSpec:
        """The sandbox's spec."""
        ...

    async def file(self, header: Header, blob: bytes | None = None, *, max_bytes: int = 0) -> Frame:
        """Send a request other than a run."""
        ...

    async def run(self, header: Header, blobs: Sequence[bytes], limits: SandboxLimits | None) -> tuple[Result, bool]:
        """Return the result of a run, and whether its session is still alive."""
        ...


class AsyncSandboxSession:
    """A live interpreter in a sandbox that keeps its state between cells."""

    def __init__(self, sandbox: SessionHost, kind: str, limits: SandboxLimits):
        self._sandbox = sandbox
        self._kind = kind
        self._limits = limits
        self._number: int | None = None
        self._closed = False
        self._started = False

    @property
    def alive(self) -> bool:
        """Whether the next cell will see the state of the last one."""
        return self._number is not None

    async def open(self) -> None:
        """Start the interpreter."""
        header = {
            "op": "open",
            "kind": self._kind,
            "limits": self._limits.to_dict(),
            "env": answers.variables(self._sandbox.spec.environment),
        }
        answer, _ = await self._sandbox.file(header)
        self._number = answer["session"]

    async def run(self, code: str | bytes, limits: SandboxLimits | None = None) -> Result:
        """Run a cell. If the interpreter has exited, start a new one and say so on stderr."""
        if self._closed:
            raise UsageError("this session is closed")
        if self._kind == "bash":
            answers.shell_text(code)
        note = b""
        for _ in range(_TRIES):
            try:
                if self._number is None:
                    note = f"[the {self._kind} session was restarted; its previous state is lost]\n".encode()
                    await self.open()
                header = {"op": "cell", "session": self._number}
                result, alive = await self._sandbox.run(header, (answers.to_bytes(code),), limits or self._limits)
            except SandboxLost:
                self._number = None
                raise
            except answers.FileProblem as problem:
                if problem.kind != "session_lost":
                    raise
                self._number = None  # it was killed between two cells
                continue
            if not alive:
                self._number = None
            return answers.with_note(result, note)
        raise SandboxLost(f"the {self._kind} session exits as soon as it is started")

    async def close(self) -> None:
        """Stop the interpreter. Safe to call twice."""
        self._closed = True
        number, self._number = self._number, None
        if number is not None and not self._sandbox.lost:
            await self._sandbox.file({"op": "shut", "session": number})


class SandboxSession:
    """A live interpreter in a sandbox; see `AsyncSandboxSession`."""

    def __init__(self, core: AsyncSandboxSession, now: Callable[[Coroutine[Any, Any, Any]], Any]):
        self._core = core
        self._now = now

    @property
    def alive(self) -> bool:
        """Whether the next cell will see the state of the last one."""
        return self._core.alive

    def run(self, code: str | bytes, limits: SandboxLimits | None = None) -> Result:
        """Run a cell."""
        return self._now(self._core.run(code, limits))

    def close(self) -> None:
        """Stop the interpreter. Safe to call twice."""
        self._now(self._core.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


GRACE_S = 10.0
"""Seconds past a run's time limit after which its whole sandbox is killed from outside."""
FILE_TIMEOUT_S = 60.0
_OVERHEAD_BYTES = 1 << 16
_MB = 1 << 20


class AsyncSandbox:
    """A place where model-written code runs and keeps files. All methods are coroutines.

    Over a blocking connection they never suspend, so `agentgym.core.engine.drive.run_now` can run them too.
    """

    def __init__(
        self, launched: Launched, spec: SandboxSpec, tier: SandboxTier, notes: str, connection: AgentConnection
    ):
        self.spec = spec
        self.tier = tier
        self.notes = notes
        self.workdir = launched.workdir
        self._connection = connection
        self._turn = asyncio.Lock()
        self.lost = ""
        """Why the sandbox is gone; empty while it is alive."""
        self._lost_at = 0.0
        self._ended = weakref.finalize(self, _end_all, connection, launched.kill, os.getpid())

    async def exec(
        self,
        argv: Sequence[str] | None = None,
        *,
        code: str | bytes | None = None,
        stdin: str | bytes = b"",
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        limits: SandboxLimits | None = None,
    ) -> Result:
        """Run a program, or Python source, to completion. Everything that it started is killed afterwards.

        Args:
            argv: Program and arguments. Pass exactly one of `argv` and `code`.
            code: Python source, run as `python script.py` would.
            stdin: Its standard input.
            cwd: Current directory, relative to the workspace.
            env: Environment variables added to those of the spec.
            limits: Limits of this run; by default those of the spec.
        """
        if (argv is None) == (code is None):
            raise UsageError("exec needs exactly one of argv (a program) and code (Python source)")
        header = {
            "op": "exec",
            "kind": "argv" if code is None else "python",
            "argv": answers.arguments(argv or ()),
            "cwd": answers.path_text(cwd),
            "env": answers.variables({**self.spec.environment, **(env or {})}),
        }
        return await self._exec(header, (answers.to_bytes(code or b""), answers.to_bytes(stdin)), limits)

    async def python(self, limits: SandboxLimits | None = None) -> AsyncSandboxSession:
        """Open a live Python session, which works like a notebook. Its processes are stopped between cells."""
        return await self._session("python", limits)

    async def bash(self, limits: SandboxLimits | None = None) -> AsyncSandboxSession:
        """Open a live bash session. Its processes are stopped between cells."""
        return await self._session("bash", limits)

    async def read(self, path: str, max_bytes: int = 1_000_000) -> bytes:
        """Return the content of a regular file."""
        _, blobs = await self.file({"op": "read", "path": path, "max_bytes": max_bytes}, max_bytes=max_bytes)
        return blobs[0]

    async def write(self, path: str, data: str | bytes, mode: int = 0o644) -> None:
        """Write a file, creating its parent folders."""
        await self.file({"op": "write", "path": path, "mode": mode}, answers.to_bytes(data))

    async def list(self, path: str = ".", depth: int = 1, max_entries: int = 1000) -> list[DirectoryEntry]:
        """List a folder, down to `depth` levels and at most `max_entries`."""
        header = {"op": "list", "path": path, "depth": depth, "max_entries": max_entries}
        _, blobs = await self.file(header, max_bytes=256 * _MB)
        return [DirectoryEntry(*row) for row in json.loads(blobs[0])]

    async def remove(self, path: str) -> None:
        """Remove a file, or a folder with everything in it."""
        await self.file({"op": "remove", "path": path})

    async def mkdir(self, path: str) -> None:
        """Create a folder and its parents."""
        await self.file({"op": "mkdir", "path": path})

    async def upload(self, tree: Path | Mapping[str, bytes], path: str = ".") -> None:
        """Copy files into the workspace: a folder of the host, or contents by path."""
        await self.file({"op": "unpack", "path": path}, trees.packed(tree))

    async def download(self, path: str = ".", max_bytes: int = 100_000_000) -> dict[str, bytes]:
        """Return the regular files of a folder in the workspace, by path relative to it."""
        return trees.regular_files(await self._packed(path, max_bytes))

    async def snapshot(self) -> WorkspaceSnapshot:
        """Return the files of the workspace as they are now."""
        return WorkspaceSnapshot(await self._packed(".", self.spec.limits.disk_mb * _MB))

    async def restore(self, snapshot: WorkspaceSnapshot) -> None:
        """Restore the workspace's files to those of the snapshot."""
        await self.file({"op": "clear"})
        await self.file({"op": "unpack", "path": "."}, snapshot.data)

    async def health(self) -> bool:
        """Whether the sandbox is alive and can still run programs."""
        if self.lost:
            return False
        try:
            answer, _ = await self._request({"op": "health"}, (), GRACE_S, 0)
        except SandboxLost:
            return False
        return answer.get("healthy") is True

    async def close(self) -> None:
        """Kill everything in the sandbox. Safe to call twice."""
        self.end("it was closed")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _session(self, kind: str, limits: SandboxLimits | None) -> AsyncSandboxSession:
        session = AsyncSandboxSession(self, kind, limits or self.spec.limits)
        await session.open()
        return session

    async def _packed(self, path: str, max_bytes: int) -> bytes:
        header = {"op": "pack", "path": path, "max_bytes": max_bytes}
        _, blobs = await self.file(header, max_bytes=2 * max_bytes + _MB)
        return blobs[0]

    async def file(self, header: Header, blob: bytes | None = None, *, max_bytes: int = 0) -> Frame:
        """Send a request other than a run; raises the error that the answer reports."""
        if "path" in header:
            header["path"] = answers.path_text(header["path"])
        blobs = () if blob is None else (blob,)
        answer, contents = await self._request(header, blobs, FILE_TIMEOUT_S, max_bytes)
        answers.raise_error(answer)
        return answer, contents

    async def _exec(self, header: Header, blobs: Sequence[bytes], limits: SandboxLimits | None) -> Result:
        return (await self.run(header, blobs, limits))[0]

    async def run(self, header: Header, blobs: Sequence[bytes], limits: SandboxLimits | None) -> tuple[Result, bool]:
        """Return the result of a run, and whether its session is still alive."""
        limits = limits or self.spec.limits
        header["limits"] = limits.to_dict()
        room = 2 * limits.output_bytes + limits.reply_bytes + _OVERHEAD_BYTES
        started_at = time.monotonic()
        try:
            answer, contents = await self._request(header, blobs, limits.wall_s + GRACE_S, room)
        except SandboxLost as error:
            if self._lost_at < started_at:
                raise
            return answers.lost(str(error), time.monotonic() - started_at), False
        answers.raise_error(answer)
        try:
            return answers.result(answer, contents), answer.get("alive") is True
        except (KeyError, TypeError, ValueError, IndexError) as error:
            self.end(f"its agent answered {answer!r}")
            return answers.lost(f"malformed answer: {error!r}", time.monotonic() - started_at), False

    async def _request(self, header: Header, blobs: Sequence[bytes], timeout_s: float, max_bytes: int) -> Frame:
        async with self._turn:
            if self.lost:
                raise SandboxLost(f"this sandbox is gone: {self.lost}")
            try:
                return await self._connection.request(header, blobs, timeout_s, max_bytes)
            except ConnectionBroken as error:
                self.end(str(error))
                raise SandboxLost(f"the sandbox was lost: {error}") from error
            except BaseException:
                self.end("a request to it was cancelled")
                raise

    def end(self, why: str) -> None:
        """Kill everything in the sandbox immediately; later requests fail with `why`."""
        if not self.lost:
            self.lost, self._lost_at = why, time.monotonic()
            self._ended()


def _end_all(connection: AgentConnection, kill: Callable[[], None], owner: int) -> None:
    if os.getpid() == owner:  # a forked child shares the connection and must not touch it
        kill()  # first, so that the agent does not wake up to clean a sandbox that is removed anyway
        connection.close()


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
