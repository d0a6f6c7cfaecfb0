"""Sends the grader's requests into a sandbox and reads the replies, which submitted code may have forged."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Protocol, Self

from agentgym.base.errors import InfrastructureError
from agentgym.tools.sandbox import Ended, Result, Sandbox, SandboxLimits

CPU_S = 15.0
"""Seconds of processor time for a submission: loading it, every call, and every retry of a lost run."""
WALL_S = 20.0
"""Wall-clock seconds for the same, so that code cannot gain time by sleeping."""
MIN_S = 0.5
"""A run starts only with at least this much time left."""


class Budget:
    """Time that several runs share; each may use what the earlier ones have left.

    Args:
        cpu_s: Seconds of processor time.
        wall_s: Seconds of wall-clock time.
    """

    def __init__(self, cpu_s: float = CPU_S, wall_s: float = WALL_S):
        self.cpu_s, self.wall_s = cpu_s, wall_s

    @property
    def is_spent(self) -> bool:
        """Whether too little is left for another run."""
        return min(self.cpu_s, self.wall_s) < MIN_S

    def within(self, limits: SandboxLimits) -> SandboxLimits:
        """Return the limits of a run, reduced to what is left."""
        return limits.but(cpu_s=min(limits.cpu_s, self.cpu_s), wall_s=min(limits.wall_s, self.wall_s))

    def charge(self, result: Result) -> None:
        """Deduct what a run has used."""
        self.wall_s -= result.duration_s
        # A run killed for its processor time may not report how much it used.
        self.cpu_s -= result.duration_s if result.ended is Ended.CPU else result.usage.cpu_s


MAX_LINES = 20_000
_CALLS_OF_A_CHECK = 5
"""Number of calls to assume for the time limit of a whole check."""
_WALL_FACTOR = 2
"""How many times its processor time a run may take in wall-clock time, on a busy machine or asleep."""

_PACKAGE = "agentgym.envs.code"
_LOADER = """
import sys
from types import ModuleType
for name, source in {sources!r}:
    for package in ("agentgym", "agentgym.envs", "agentgym.envs.code"):
        sys.modules.setdefault(package, ModuleType(package))
    module = sys.modules[name] = ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
module.main()
"""


class Runs(Protocol):
    """The part of a sandbox that the grader needs."""

    def exec(self, *, code: str, stdin: bytes, limits: SandboxLimits | None) -> Result:
        """Run a program."""
        ...


@dataclass(frozen=True)
class GraderReply:
    """The lines of a reply, and how the run ended."""

    lines: tuple[Mapping[str, Any], ...]
    result: Result

    def first(self, key: str) -> Any:
        """Return the value of `key` in the first line that has it, or `None`."""
        return next((line[key] for line in self.lines if key in line), None)

    def line_with(self, key: str) -> Mapping[str, Any]:
        """Return the first line that has `key`, or an empty one."""
        return next((line for line in self.lines if key in line), {})


_NOT_RUN = GraderReply((), Result(stdout=b"", stderr=b"", exit_code=None, ended=Ended.TIMEOUT, duration_s=0.0))
"""The reply to a request after the time budget is spent."""

Ask = Callable[[Mapping[str, Any]], GraderReply]
"""Runs a request somewhere and returns the reply."""


class Runner:
    """Runs requests in separate sandboxes, within a shared time budget.

    Args:
        opener: Opens a fresh sandbox.
        limits: Bounds on a run.
        budget: The time that all runs share.
        call_s: Seconds of processor time that one call of a function may take.
    """

    def __init__(self, opener: Callable[[], Sandbox], limits: SandboxLimits, budget: Budget, call_s: float):
        self._opener, self._limits, self._call_s = opener, limits, call_s
        self.budget = budget
        self._shared: Sandbox | None = None

    def apart(self, request: Mapping[str, Any]) -> GraderReply:
        """Run a request in a sandbox of its own, which is closed afterwards."""
        return self._retried_once(lambda: self._apart(request))

    def together(self, request: Mapping[str, Any]) -> GraderReply:
        """Run a request in a process of its own, in the sandbox that all such requests share."""
        return self._retried_once(lambda: self._together(request))

    def close(self) -> None:
        """Close the shared sandbox."""
        sandbox, self._shared = self._shared, None
        if sandbox is not None:
            sandbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _retried_once(self, run: Callable[[], GraderReply]) -> GraderReply:
        """Retry a request that lost its sandbox, once: a second loss is the fault of the submitted code."""
        reply = run()
        return run() if reply.result.ended is Ended.KILLED else reply

    def _apart(self, request: Mapping[str, Any]) -> GraderReply:
        if self.budget.is_spent:
            return _NOT_RUN
        with self._opener() as sandbox:
            return self._run(sandbox, request, fresh=True)

    def _together(self, request: Mapping[str, Any]) -> GraderReply:
        if self.budget.is_spent:
            return _NOT_RUN
        fresh = self._shared is None
        if self._shared is None:
            self._shared = self._opener()
        reply = self._run(self._shared, request, fresh=fresh)
        if reply.result.ended is Ended.KILLED:
            self.close()
        return reply

    def _run(self, sandbox: Runs, request: Mapping[str, Any], *, fresh: bool) -> GraderReply:
        full = bounds(self._limits, request, self._call_s)
        limits = self.budget.within(full)
        # With little of the budget left, a run may not even start.
        reply = ask(sandbox, request, limits, fresh=fresh and limits == full)
        self.budget.charge(reply.result)
        return reply


def bounds(limits: SandboxLimits, request: Mapping[str, Any], call_s: float) -> SandboxLimits:
    """Return the limits of a request: time for each of its calls, and for loading the source."""
    calls = len(request["calls"]) if "calls" in request else _CALLS_OF_A_CHECK
    cpu_s = 1.0 + call_s * (calls + 1)
    reply_bytes = max(limits.reply_bytes, 8_000_000)
    return limits.but(cpu_s=min(CPU_S, cpu_s), wall_s=min(WALL_S, _WALL_FACTOR * cpu_s), reply_bytes=reply_bytes)


def ask(sandbox: Runs, request: Mapping[str, Any], limits: SandboxLimits, *, fresh: bool) -> GraderReply:
    """Run `inside.main` on a request. Lines of the reply that are not JSON objects are skipped.

    Args:
        sandbox: The sandbox to run in.
        request: The request.
        limits: Bounds on the run.
        fresh: No untrusted code has run in the sandbox yet, so if the program does not start, the model is not to blame
            and the call raises `InfrastructureError` (unless the sandbox was lost, and its reply with it).
    """
    result = sandbox.exec(code=PROGRAM, stdin=json.dumps(request).encode(), limits=limits)
    parsed_lines = (_read(line) for line in result.reply.split(b"\n", MAX_LINES)[:MAX_LINES])
    lines = tuple(line for line in parsed_lines if line is not None)
    if fresh and result.ended is not Ended.KILLED and not (lines and "began" in lines[0]):
        raise InfrastructureError(f"the grader's program did not start: {result.message}: {result.err[-500:]}")
    return GraderReply(lines, result)


def _read(line: bytes) -> Mapping[str, Any] | None:
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _program() -> str:
    sources = [
        (f"{_PACKAGE}.{name}", files(_PACKAGE).joinpath(f"{name}.py").read_text()) for name in ("plain", "inside")
    ]
    return _LOADER.format(sources=sources)


PROGRAM = _program()
"""`plain` and `inside` as one program."""
