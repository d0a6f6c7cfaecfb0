"""Runs the source's own programs in this process. For our own code only: nothing here is sandboxed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.tasks.code.families import Arguments


@dataclass(frozen=True)
class Crash:
    """The outcome of a call that raises: the name of the exception."""

    error: str


def output_of(code: str) -> str:
    """Run a program and return its output, without the final newline."""
    lines: list[str] = []

    def collect(*values: Any, sep: str = " ") -> None:
        lines.append(sep.join(map(str, values)))

    exec(compile(code, "<program>", "exec"), {"print": collect, "__name__": "__main__"})
    return "\n".join(lines)


def load(code: str | ast.Module, entry_point: str) -> Callable[..., Any]:
    """Run source that defines a function, and return the function."""
    names: dict[str, Any] = {"__name__": "solution"}
    exec(compile(code, "<solution>", "exec"), names)
    return names[entry_point]


def outcomes(call: Callable[..., Any], inputs: Sequence[Arguments]) -> list[Any]:
    """Call a function on every input; a call that raises gives a `Crash`."""
    return [_outcome(call, args) for args in inputs]


def _outcome(call: Callable[..., Any], args: Arguments) -> Any:
    try:
        return call(*args)
    except Exception as error:
        return Crash(type(error).__name__)
