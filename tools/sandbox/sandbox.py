"""A sandbox as its users see it: one implementation in coroutines, and a synchronous face on it."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
import weakref
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from agentgym.drive import run_now
from agentgym.errors import UsageError
from agentgym.tools.sandbox import answers, trees
from agentgym.tools.sandbox.agent.wire import Frame, Header
from agentgym.tools.sandbox.answers import Entry, FileProblem
from agentgym.tools.sandbox.backend import Launched, SandboxLost
from agentgym.tools.sandbox.channel import AsyncChannel, BlockingChannel, Channel, ChannelBroken
from agentgym.tools.sandbox.limits import Limits
from agentgym.tools.sandbox.result import Result
from agentgym.tools.sandbox.spec import SandboxSpec, Tier
from agentgym.tools.sandbox.trees import Snapshot

GRACE_S = 10.0
"""Seconds beyond its limit after which a run's whole sandbox is killed from outside."""
FILE_TIMEOUT_S = 60.0
_OVERHEAD_BYTES = 1 << 16
_MB = 1 << 20

_T = TypeVar("_T")


class AsyncSandbox:
    """A place where model-written code runs and keeps files. Its methods are coroutines.

    Over a blocking channel they never wait for a loop, so `agentgym.drive.run_now` can run them too.
    """

    def __init__(self, launched: Launched, spec: SandboxSpec, tier: Tier, notes: str, channel: Channel):
        self.spec = spec
        self.tier = tier
        self.notes = notes
        self.workdir = launched.workdir
        self._kill = launched.kill
        self._channel = channel
        self._turn = asyncio.Lock()
        self._lost = ""
        self._lost_at = 0.0
        self._owner = os.getpid()
        self._ended = weakref.finalize(self, launched.kill)

    async def exec(
        self,
        argv: Sequence[str] | None = None,
        *,
        code: str | bytes | None = None,
        stdin: str | bytes = b"",
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> Result:
        """Run a program, or Python source, to its end. Nothing that it started lives on after it.

        Args:
            argv: Program and arguments. Exactly one of `argv` and `code` is given.
            code: Python source, run as `python script.py` would.
            stdin: What it finds on its standard input.
            cwd: Current directory, from the workspace.
            env: Environment variables added to those of the spec.
            limits: Bounds of this run; those of the spec if not given.
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
        return await self._run(header, (answers.to_bytes(code or b""), answers.to_bytes(stdin)), limits)

    async def python(self, limits: Limits | None = None) -> AsyncSession:
        """Open a live Python session, which works like a notebook."""
        return await self._session("python", limits)

    async def bash(self, limits: Limits | None = None) -> AsyncSession:
        """Open a live bash session."""
        return await self._session("bash", limits)

    async def read(self, path: str, max_bytes: int = 1_000_000) -> bytes:
        """Return the content of a regular file."""
        _, blobs = await self._file({"op": "read", "path": path, "max_bytes": max_bytes}, max_bytes=max_bytes)
        return blobs[0]

    async def write(self, path: str, data: str | bytes, mode: int = 0o644) -> None:
        """Write a file; folders above it are made."""
        await self._file({"op": "write", "path": path, "mode": mode}, answers.to_bytes(data))

    async def list(self, path: str = ".", depth: int = 1, max_entries: int = 1000) -> list[Entry]:
        """Return what is in a folder, down to `depth` levels, at most `max_entries`."""
        header = {"op": "list", "path": path, "depth": depth, "max_entries": max_entries}
        _, blobs = await self._file(header, max_bytes=256 * _MB)
        return [Entry(*row) for row in json.loads(blobs[0])]

    async def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it."""
        await self._file({"op": "remove", "path": path})

    async def mkdir(self, path: str) -> None:
        """Make a folder and those above it."""
        await self._file({"op": "mkdir", "path": path})

    async def upload(self, tree: Path | Mapping[str, bytes], path: str = ".") -> None:
        """Put files into the workspace: those of a folder of the host, or contents by path."""
        await self._file({"op": "unpack", "path": path}, trees.packed(tree))

    async def download(self, path: str = ".", max_bytes: int = 100_000_000) -> dict[str, bytes]:
        """Return the regular files of a folder of the workspace, by path below it."""
        return trees.regular_files(await self._packed(path, max_bytes))

    async def snapshot(self) -> Snapshot:
        """Return the files of the workspace as they are now."""
        return Snapshot(await self._packed(".", self.spec.limits.disk_mb * _MB))

    async def restore(self, snapshot: Snapshot) -> None:
        """Make the files of the workspace what they were when the snapshot was taken."""
        await self._file({"op": "clear"})
        await self._file({"op": "unpack", "path": "."}, snapshot.data)

    async def health(self) -> bool:
        """Whether the sandbox is there and can still run things."""
        if self._lost:
            return False
        try:
            answer, _ = await self._request({"op": "health"}, (), GRACE_S, 0)
        except SandboxLost:
            return False
        return answer.get("healthy") is True

    async def close(self) -> None:
        """End everything in the sandbox. Safe to call twice."""
        self.end("it was closed")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _session(self, kind: str, limits: Limits | None) -> AsyncSession:
        session = AsyncSession(self, kind, limits or self.spec.limits)
        await session.open()
        return session

    async def _packed(self, path: str, max_bytes: int) -> bytes:
        header = {"op": "pack", "path": path, "max_bytes": max_bytes}
        _, blobs = await self._file(header, max_bytes=2 * max_bytes + _MB)
        return blobs[0]

    async def _file(self, header: Header, blob: bytes | None = None, *, max_bytes: int = 0) -> Frame:
        if "path" in header:
            header["path"] = answers.path_text(header["path"])
        blobs = () if blob is None else (blob,)
        answer, contents = await self._request(header, blobs, FILE_TIMEOUT_S, max_bytes)
        answers.raise_error(answer)
        return answer, contents

    async def _run(self, header: Header, blobs: Sequence[bytes], limits: Limits | None) -> Result:
        return (await self._run_answer(header, blobs, limits))[0]

    async def _run_answer(self, header: Header, blobs: Sequence[bytes], limits: Limits | None) -> tuple[Result, bool]:
        """Return the result of a run and whether what it ran in lives on."""
        limits = limits or self.spec.limits
        header["limits"] = limits.to_dict()
        room = 2 * limits.output_bytes + limits.reply_bytes + _OVERHEAD_BYTES
        began = time.monotonic()
        try:
            answer, contents = await self._request(header, blobs, limits.wall_s + GRACE_S, room)
        except SandboxLost as error:
            if self._lost_at < began:
                raise
            return answers.lost(str(error), time.monotonic() - began), False
        answers.raise_error(answer)
        try:
            return answers.result(answer, contents), answer.get("alive") is True
        except (KeyError, TypeError, ValueError, IndexError) as error:
            self.end(f"its agent answered {answer!r}")
            return answers.lost(f"malformed answer: {error!r}", time.monotonic() - began), False

    async def _request(self, header: Header, blobs: Sequence[bytes], timeout_s: float, max_bytes: int) -> Frame:
        async with self._turn:
            if self._lost:
                raise SandboxLost(f"this sandbox is gone: {self._lost}")
            try:
                return await self._channel.request(header, blobs, timeout_s, max_bytes)
            except ChannelBroken as error:
                self.end(str(error))
                raise SandboxLost(f"the sandbox was lost: {error}") from error
            except BaseException:
                self.end("a request to it was given up")
                raise

    def end(self, why: str) -> None:
        """End everything in the sandbox at once; what is asked of it later fails with `why`."""
        if not self._lost:
            self._lost, self._lost_at = why, time.monotonic()
            if os.getpid() == self._owner:  # a forked child shares the connection and must leave it as it is
                self._channel.close()
                self._ended()


class AsyncSession:
    """A live interpreter in a sandbox that keeps its state between cells."""

    def __init__(self, sandbox: AsyncSandbox, kind: str, limits: Limits):
        self._sandbox = sandbox
        self._kind = kind
        self._limits = limits
        self._number: int | None = None
        self._closed = False
        self._started = False

    @property
    def alive(self) -> bool:
        """Whether the next cell finds the state of the last one."""
        return self._number is not None

    async def open(self) -> None:
        """Start the interpreter."""
        header = {
            "op": "open",
            "kind": self._kind,
            "limits": self._limits.to_dict(),
            "env": answers.variables(self._sandbox.spec.environment),
        }
        answer, _ = await self._sandbox._file(header)
        self._number = answer["session"]

    async def run(self, code: str | bytes, limits: Limits | None = None) -> Result:
        """Run a cell. If the interpreter had ended, a new one is started, and a note on stderr says so."""
        if self._closed:
            raise UsageError("this session is closed")
        try:
            answers.shell_text(code) if self._kind == "bash" else None
            note = b""
            if self._number is None:
                await self.open()
                note = f"[the {self._kind} session was restarted: what it held before is lost]\n".encode()
            header = {"op": "cell", "session": self._number}
            result, alive = await self._sandbox._run_answer(header, (answers.to_bytes(code),), limits or self._limits)
        except SandboxLost:
            self._number = None
            raise
        if not alive:
            self._number = None
        return answers.with_note(result, note)

    async def close(self) -> None:
        """End the interpreter. Safe to call twice."""
        self._closed = True
        number, self._number = self._number, None
        if number is not None and not self._sandbox._lost:
            await self._sandbox._file({"op": "shut", "session": number})


class Sandbox:
    """A place where model-written code runs and keeps files; see `AsyncSandbox` for what each method does."""

    def __init__(self, core: AsyncSandbox):
        self.core = core
        """The same sandbox as coroutines that never wait."""
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
        limits: Limits | None = None,
    ) -> Result:
        """Run a program, or Python source, to its end."""
        return self._now(self.core.exec(argv, code=code, stdin=stdin, cwd=cwd, env=env, limits=limits))

    def python(self, limits: Limits | None = None) -> Session:
        """Open a live Python session."""
        return Session(self, self._now(self.core.python(limits)))

    def bash(self, limits: Limits | None = None) -> Session:
        """Open a live bash session."""
        return Session(self, self._now(self.core.bash(limits)))

    def read(self, path: str, max_bytes: int = 1_000_000) -> bytes:
        """Return the content of a regular file."""
        return self._now(self.core.read(path, max_bytes))

    def write(self, path: str, data: str | bytes, mode: int = 0o644) -> None:
        """Write a file."""
        self._now(self.core.write(path, data, mode))

    def list(self, path: str = ".", depth: int = 1, max_entries: int = 1000) -> list[Entry]:
        """Return what is in a folder."""
        return self._now(self.core.list(path, depth, max_entries))

    def remove(self, path: str) -> None:
        """Remove a file or folder."""
        self._now(self.core.remove(path))

    def mkdir(self, path: str) -> None:
        """Make a folder."""
        self._now(self.core.mkdir(path))

    def upload(self, tree: Path | Mapping[str, bytes], path: str = ".") -> None:
        """Put files into the workspace."""
        self._now(self.core.upload(tree, path))

    def download(self, path: str = ".", max_bytes: int = 100_000_000) -> dict[str, bytes]:
        """Return the regular files of a folder."""
        return self._now(self.core.download(path, max_bytes))

    def snapshot(self) -> Snapshot:
        """Return the files of the workspace as they are now."""
        return self._now(self.core.snapshot())

    def restore(self, snapshot: Snapshot) -> None:
        """Bring back the files of a snapshot."""
        self._now(self.core.restore(snapshot))

    def health(self) -> bool:
        """Whether the sandbox is there and can still run things."""
        return self._now(self.core.health())

    def close(self) -> None:
        """End everything in the sandbox. Safe to call twice, and while a run is under way in another thread."""
        run_now(self.core.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _now(self, work: Coroutine[Any, Any, _T]) -> _T:
        with self._lock:
            return run_now(work)


class Session:
    """A live interpreter in a sandbox; see `AsyncSession`."""

    def __init__(self, sandbox: Sandbox, core: AsyncSession):
        self._sandbox = sandbox
        self._core = core

    @property
    def alive(self) -> bool:
        """Whether the next cell finds the state of the last one."""
        return self._core.alive

    def run(self, code: str | bytes, limits: Limits | None = None) -> Result:
        """Run a cell."""
        return self._sandbox._now(self._core.run(code, limits))

    def close(self) -> None:
        """End the interpreter. Safe to call twice."""
        self._sandbox._now(self._core.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(launched: Launched, spec: SandboxSpec, tier: Tier, notes: str) -> Sandbox:
    """Return the sandbox of an agent that has said hello."""
    return Sandbox(AsyncSandbox(launched, spec, tier, notes, BlockingChannel(launched.endpoint)))


def connect_async(launched: Launched, spec: SandboxSpec, tier: Tier, notes: str) -> AsyncSandbox:
    """Return the sandbox of an agent that has said hello, for the running event loop."""
    return AsyncSandbox(launched, spec, tier, notes, AsyncChannel(launched.endpoint))


__all__ = ["AsyncSandbox", "AsyncSession", "Entry", "FileProblem", "Sandbox", "Session", "Snapshot"]
