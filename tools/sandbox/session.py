"""Live sessions in a sandbox, asynchronous and synchronous."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, Self

from agentgym.errors import UsageError
from agentgym.tools.sandbox import answers
from agentgym.tools.sandbox.agent.wire import Frame, Header
from agentgym.tools.sandbox.backend import SandboxLost
from agentgym.tools.sandbox.limits import SandboxLimits
from agentgym.tools.sandbox.result import Result
from agentgym.tools.sandbox.spec import SandboxSpec

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
