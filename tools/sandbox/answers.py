"""Converts and validates values in both directions between Python and the agent's protocol."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from agentgym.base.errors import InfrastructureError, ToolError, UsageError
from agentgym.tools.sandbox.agent.wire import Header
from agentgym.tools.sandbox.result import Ended, ResourceUsage, Result


class FileProblem(ToolError):
    """A file operation that the model requested cannot be done; `kind` is the reason in one word."""

    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.kind = kind


class TextProblem(ToolError):
    """Code or arguments contain characters that cannot be passed to a program."""


@dataclass(frozen=True)
class DirectoryEntry:
    """One file or folder in a listing."""

    path: str
    kind: Literal["file", "dir", "link", "other"]
    size: int


def to_bytes(text: str | bytes) -> bytes:
    """Encode text for sending. Lone surrogates are kept, so that the receiver can report them."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def shell_text(code: str | bytes) -> None:
    """Reject code that cannot be passed to bash."""
    if b"\0" in to_bytes(code):
        raise TextProblem("the command contains a NUL character; remove it")


def path_text(path: str) -> str:
    """Validate a path for sending."""
    if "\0" in path:
        raise FileProblem("invalid", f"the path {path!r} contains a NUL character")
    if not path:
        raise FileProblem("invalid", "the path is empty; '.' is the workspace")
    return _encodable(path)


def arguments(argv: Sequence[str]) -> list[str]:
    """Validate a program's arguments for sending."""
    if isinstance(argv, str):
        raise UsageError(
            f"argv must be a sequence of strings, not the string {argv!r}; for a shell, use ('bash', '-c', text)"
        )
    for word in argv:
        if "\0" in word:
            raise TextProblem(f"the argument {word[:200]!r} contains a NUL character; remove it")
    return [_encodable(word) for word in argv]


def variables(values: Mapping[str, str]) -> dict[str, str]:
    """Validate environment variables for sending."""
    for name, value in values.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise UsageError(f"{name!r}={value!r} cannot be an environment variable")
    return dict(values)


def _encodable(text: str) -> str:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise TextProblem(
            f"{text[:200]!r} contains a lone surrogate, which is not a valid character; remove it"
        ) from None
    return text


_FILE_KINDS = frozenset(
    ("not_found", "not_a_file", "is_directory", "outside", "too_large", "no_space", "invalid", "session_lost")
)


def raise_error(answer: Header) -> None:
    """Raise the error that an answer reports."""
    kind = answer.get("error")
    if kind is None:
        return
    message = str(answer.get("message", kind))
    if kind in _FILE_KINDS:
        raise FileProblem(str(kind), message)
    raise InfrastructureError(f"the sandbox's agent failed: {message}")


_MAX_MEASURE = 1 << 50


def result(answer: Mapping[str, Any], blobs: Sequence[bytes]) -> Result:
    """Return the result of a run; `ValueError` and the like if the answer is malformed."""
    stdout, stderr, reply = blobs
    exit_code, number = answer["exit_code"], answer["signal"]
    out, err = answer["cut"]
    measures = (answer["duration_s"], answer["cpu_s"], answer["peak_memory_mb"], out, err)
    if not all(0 <= value < _MAX_MEASURE for value in (exit_code or 0, number or 0, *measures)):
        raise ValueError(f"impossible numbers: {answer!r}"[:500])
    return Result(
        stdout=stdout,
        stderr=stderr,
        exit_code=None if exit_code is None else int(exit_code),
        ended=Ended(answer["ended"]),
        duration_s=float(answer["duration_s"]),
        signal=None if number is None else int(number),
        usage=ResourceUsage(float(answer["cpu_s"]), float(answer["peak_memory_mb"])),
        cut=(int(out), int(err)),
        reply=reply,
    )


def lost(why: str, duration_s: float) -> Result:
    """Return the result of a run during which the sandbox was lost."""
    return Result(
        stdout=b"",
        stderr=f"[{why}]\n".encode("utf-8", "backslashreplace"),
        exit_code=None,
        ended=Ended.KILLED,
        duration_s=duration_s,
        signal=signal.SIGKILL,
    )


def with_note(result: Result, note: bytes) -> Result:
    """Return a result with a note at the beginning of stderr."""
    return replace(result, stderr=note + result.stderr) if note else result
