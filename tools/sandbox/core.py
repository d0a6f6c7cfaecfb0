"""A sandbox as its users see it, in coroutines: the one implementation, over a channel of either kind."""

from __future__ import annotations

import asyncio
import json
import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from agentgym.errors import UsageError
from agentgym.tools.sandbox import answers, trees
from agentgym.tools.sandbox.agent.wire import Frame, Header
from agentgym.tools.sandbox.answers import Entry
from agentgym.tools.sandbox.backend import Launched, SandboxLost
from agentgym.tools.sandbox.channel import Channel, ChannelBroken
from agentgym.tools.sandbox.limits import Limits
from agentgym.tools.sandbox.result import Result
from agentgym.tools.sandbox.session import AsyncSession
from agentgym.tools.sandbox.spec import SandboxSpec, Tier
from agentgym.tools.sandbox.trees import Snapshot

GRACE_S = 10.0
"""Seconds beyond its limit after which a run's whole sandbox is killed from outside."""
FILE_TIMEOUT_S = 60.0
_OVERHEAD_BYTES = 1 << 16
_MB = 1 << 20


class AsyncSandbox:
    """A place where model-written code runs and keeps files. Its methods are coroutines.

    Over a blocking channel they never wait for a loop, so `agentgym.drive.run_now` can run them too.
    """

    def __init__(self, launched: Launched, spec: SandboxSpec, tier: Tier, notes: str, channel: Channel):
        self.spec = spec
        self.tier = tier
        self.notes = notes
        self.workdir = launched.workdir
        self._channel = channel
        self._turn = asyncio.Lock()
        self.lost = ""
        """Why the sandbox is gone; empty as long as it is there."""
        self._lost_at = 0.0
        self._ended = weakref.finalize(self, _end_all, channel, launched.kill, os.getpid())

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
        return await self._exec(header, (answers.to_bytes(code or b""), answers.to_bytes(stdin)), limits)

    async def python(self, limits: Limits | None = None) -> AsyncSession:
        """Open a live Python session, which works like a notebook. Between its cells all its processes are stopped."""
        return await self._session("python", limits)

    async def bash(self, limits: Limits | None = None) -> AsyncSession:
        """Open a live bash session. Between its cells all its processes are stopped."""
        return await self._session("bash", limits)

    async def read(self, path: str, max_bytes: int = 1_000_000) -> bytes:
        """Return the content of a regular file."""
        _, blobs = await self.file({"op": "read", "path": path, "max_bytes": max_bytes}, max_bytes=max_bytes)
        return blobs[0]

    async def write(self, path: str, data: str | bytes, mode: int = 0o644) -> None:
        """Write a file; folders above it are made."""
        await self.file({"op": "write", "path": path, "mode": mode}, answers.to_bytes(data))

    async def list(self, path: str = ".", depth: int = 1, max_entries: int = 1000) -> list[Entry]:
        """Return what is in a folder, down to `depth` levels, at most `max_entries`."""
        header = {"op": "list", "path": path, "depth": depth, "max_entries": max_entries}
        _, blobs = await self.file(header, max_bytes=256 * _MB)
        return [Entry(*row) for row in json.loads(blobs[0])]

    async def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it."""
        await self.file({"op": "remove", "path": path})

    async def mkdir(self, path: str) -> None:
        """Make a folder and those above it."""
        await self.file({"op": "mkdir", "path": path})

    async def upload(self, tree: Path | Mapping[str, bytes], path: str = ".") -> None:
        """Put files into the workspace: those of a folder of the host, or contents by path."""
        await self.file({"op": "unpack", "path": path}, trees.packed(tree))

    async def download(self, path: str = ".", max_bytes: int = 100_000_000) -> dict[str, bytes]:
        """Return the regular files of a folder of the workspace, by path below it."""
        return trees.regular_files(await self._packed(path, max_bytes))

    async def snapshot(self) -> Snapshot:
        """Return the files of the workspace as they are now."""
        return Snapshot(await self._packed(".", self.spec.limits.disk_mb * _MB))

    async def restore(self, snapshot: Snapshot) -> None:
        """Make the files of the workspace what they were when the snapshot was taken."""
        await self.file({"op": "clear"})
        await self.file({"op": "unpack", "path": "."}, snapshot.data)

    async def health(self) -> bool:
        """Whether the sandbox is there and can still run things."""
        if self.lost:
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
        _, blobs = await self.file(header, max_bytes=2 * max_bytes + _MB)
        return blobs[0]

    async def file(self, header: Header, blob: bytes | None = None, *, max_bytes: int = 0) -> Frame:
        """Do one operation of the protocol that is no run; raises what went wrong with it."""
        if "path" in header:
            header["path"] = answers.path_text(header["path"])
        blobs = () if blob is None else (blob,)
        answer, contents = await self._request(header, blobs, FILE_TIMEOUT_S, max_bytes)
        answers.raise_error(answer)
        return answer, contents

    async def _exec(self, header: Header, blobs: Sequence[bytes], limits: Limits | None) -> Result:
        return (await self.run(header, blobs, limits))[0]

    async def run(self, header: Header, blobs: Sequence[bytes], limits: Limits | None) -> tuple[Result, bool]:
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
            if self.lost:
                raise SandboxLost(f"this sandbox is gone: {self.lost}")
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
        if not self.lost:
            self.lost, self._lost_at = why, time.monotonic()
            self._ended()


def _end_all(channel: Channel, kill: Callable[[], None], owner: int) -> None:
    if os.getpid() == owner:  # a forked child shares the connection and must leave it as it is
        kill()  # first, so that the agent does not wake up only to tidy a sandbox that goes anyway
        channel.close()
