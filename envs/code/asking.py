"""Sends a request of the grader into a sandbox and reads what comes back, which may have been written by anyone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Protocol, Self

from agentgym.envs.code.budget import CPU_S, WALL_S, Budget
from agentgym.errors import InfrastructureError
from agentgym.tools.sandbox import Ended, Limits, Result, Sandbox

MAX_LINES = 20_000
_CALLS_OF_A_CHECK = 5
"""Calls for which a whole check has time."""
_WALL_FACTOR = 2
"""How much longer than its processor time a run may take on a busy machine, or asleep."""

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
    """The part of a sandbox that is needed here."""

    def exec(self, *, code: str, stdin: bytes, limits: Limits | None) -> Result:
        """Run a program."""
        ...


@dataclass(frozen=True)
class Reply:
    """Lines that came back, and how the run ended."""

    lines: tuple[Mapping[str, Any], ...]
    result: Result

    def first(self, key: str) -> Any:
        """Return the value of `key` in the first line that has it, or `None`."""
        return next((line[key] for line in self.lines if key in line), None)

    def line_with(self, key: str) -> Mapping[str, Any]:
        """Return the first line that has `key`, or an empty one."""
        return next((line for line in self.lines if key in line), {})


_NOT_RUN = Reply((), Result(stdout=b"", stderr=b"", exit_code=None, ended=Ended.TIMEOUT, duration_s=0.0))
"""What a request comes to when there is no time left for it."""

Ask = Callable[[Mapping[str, Any]], Reply]
"""Runs a request somewhere and returns the reply."""


class Runner:
    """Runs requests in sandboxes of their own, within the time that they may take together.

    Args:
        opener: Opens a fresh sandbox.
        limits: Bounds on a run.
        budget: The time that all runs share.
        call_s: Seconds of processor time that one call of a function may take.
    """

    def __init__(self, opener: Callable[[], Sandbox], limits: Limits, budget: Budget, call_s: float):
        self._opener, self._limits, self._call_s = opener, limits, call_s
        self.budget = budget
        self._kept: Sandbox | None = None

    def apart(self, request: Mapping[str, Any]) -> Reply:
        """Run a request in a sandbox that is thrown away afterwards."""
        return self._twice(lambda: self._apart(request))

    def together(self, request: Mapping[str, Any]) -> Reply:
        """Run a request in a process of its own, in the one sandbox that all such requests share."""
        return self._twice(lambda: self._together(request))

    def close(self) -> None:
        """End the sandbox that is shared."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _twice(self, run: Callable[[], Reply]) -> Reply:
        """Run again what has lost its sandbox: what ends two sandboxes is the submitted code, not the machine."""
        reply = run()
        return run() if reply.result.ended is Ended.KILLED else reply

    def _apart(self, request: Mapping[str, Any]) -> Reply:
        if self.budget.is_spent:
            return _NOT_RUN
        with self._opener() as sandbox:
            return self._run(sandbox, request, fresh=True)

    def _together(self, request: Mapping[str, Any]) -> Reply:
        if self.budget.is_spent:
            return _NOT_RUN
        fresh = self._kept is None
        if self._kept is None:
            self._kept = self._opener()
        reply = self._run(self._kept, request, fresh=fresh)
        if reply.result.ended is Ended.KILLED:
            self.close()
        return reply

    def _run(self, sandbox: Runs, request: Mapping[str, Any], *, fresh: bool) -> Reply:
        wanted = bounds(self._limits, request, self._call_s)
        limits = self.budget.within(wanted)
        # A run that the others have left little time may not even begin.
        reply = ask(sandbox, request, limits, fresh=fresh and limits == wanted)
        self.budget.charge(reply.result)
        return reply


def bounds(limits: Limits, request: Mapping[str, Any], call_s: float) -> Limits:
    """Return the bounds of a request: time for every call that it asks for, and for loading the source."""
    calls = len(request["calls"]) if "calls" in request else _CALLS_OF_A_CHECK
    cpu_s = 1.0 + call_s * (calls + 1)
    reply_bytes = max(limits.reply_bytes, 8_000_000)
    return limits.but(cpu_s=min(CPU_S, cpu_s), wall_s=min(WALL_S, _WALL_FACTOR * cpu_s), reply_bytes=reply_bytes)


def ask(sandbox: Runs, request: Mapping[str, Any], limits: Limits, *, fresh: bool) -> Reply:
    """Run `inside.main` on a request. What is no line of JSON in the reply is left out.

    Args:
        sandbox: Where.
        request: What for.
        limits: Bounds on the run.
        fresh: Nothing of a stranger has been in the sandbox before, so that a program that does not begin is no fault
            of the model: `InfrastructureError`. (A sandbox that is lost takes its reply with it, so that says nothing.)
    """
    result = sandbox.exec(code=PROGRAM, stdin=json.dumps(request).encode(), limits=limits)
    found = (_read(line) for line in result.reply.split(b"\n", MAX_LINES)[:MAX_LINES])
    lines = tuple(line for line in found if line is not None)
    if fresh and result.ended is not Ended.KILLED and not (lines and "began" in lines[0]):
        raise InfrastructureError(f"the grader's program did not begin: {result.message}: {result.err[-500:]}")
    return Reply(lines, result)


def _read(line: bytes) -> Mapping[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _program() -> str:
    sources = [
        (f"{_PACKAGE}.{name}", files(_PACKAGE).joinpath(f"{name}.py").read_text()) for name in ("plain", "inside")
    ]
    return _LOADER.format(sources=sources)


PROGRAM = _program()
"""`plain` and `inside` as one program."""
