"""Sends a request of the grader into a sandbox and reads what comes back, which may have been written by anyone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Protocol

from agentgym.errors import InfrastructureError
from agentgym.tools.sandbox import Ended, Limits, Result

MAX_LINES = 20_000

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


Ask = Callable[[Mapping[str, Any]], Reply]
"""Asks in a sandbox of its own that is thrown away afterwards."""


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
