"""Answers the agent's requests for an image without python: each one runs a program in the container.

This is much slower (three daemon calls each) and has no sessions. The image's own `sh` and `tar` read and write
files as the sandbox's user, because Docker's copy API does not see tmpfs folders.
"""

from __future__ import annotations

import io
import math
import posixpath
import tarfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentgym.tools.sandbox.agent import archive, files
from agentgym.tools.sandbox.agent.wire import Frame, Header, encode
from agentgym.tools.sandbox.containers.calls import Call, ContainerCallOutcome, run_call
from agentgym.tools.sandbox.containers.daemon import Daemon
from agentgym.tools.sandbox.pump import decode
from agentgym.tools.sandbox.result import Ended
from agentgym.tools.sandbox.spec import SandboxLimits

_KINDS = {"file": tarfile.REGTYPE, "dir": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}


def from_archive(data: bytes) -> bytes:
    """Convert an archive to a tar file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for item in archive.split(data):
            entry = tarfile.TarInfo(item.path)
            entry.type = _KINDS[item.kind]
            entry.mode = item.mode
            if item.kind == "link":
                entry.linkname = item.data.decode("utf-8", "surrogateescape")
            else:
                entry.size = len(item.data)
            tar.addfile(entry, io.BytesIO(item.data) if item.kind == "file" else None)
    return packed.getvalue()


def to_archive(packed: bytes, max_bytes: int) -> bytes:
    """Convert a tar file to an archive of its folders, regular files and links.

    Raises:
        ValueError: If the contents exceed `max_bytes`, or it is not a tar file: its source is not trusted.
    """
    items: list[archive.ArchiveItem] = []
    room = max_bytes
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as tar:
            for entry in tar:
                path = posixpath.normpath(entry.name)
                kind = _kind(entry)
                if path == "." or kind is None:
                    continue
                data = _content(tar, entry, kind, room)
                room -= len(data) + len(path)
                if room < 0:
                    raise _TooLarge(f"it contains more than {max_bytes} bytes")
                items.append(archive.ArchiveItem(path, kind, entry.mode & 0o777, data))
    except _TooLarge:
        raise
    except Exception as error:
        raise ValueError(f"it cannot be packed: {error}") from None
    return archive.join(items)


class _TooLarge(ValueError):
    pass


def _kind(entry: tarfile.TarInfo) -> str | None:
    """Return the kind. A hard link is a file too, although tar only refers to its first name."""
    if entry.isdir():
        return "dir"
    if entry.issym():
        return "link"
    return "file" if entry.isfile() or entry.islnk() else None


def _content(tar: tarfile.TarFile, entry: tarfile.TarInfo, kind: str, room: int) -> bytes:
    if kind == "link":
        return entry.linkname.encode("utf-8", "surrogateescape")
    file = tar.extractfile(entry) if kind == "file" else None
    # A sparse file can be far larger than its tar file.
    return file.read(max(0, room) + 1) if file else b""


_FILES_S = 60.0
# Per-process limits, then the program itself. The soft CPU limit kills it with a signal that identifies the reason.
_LIMITED = (
    "ulimit -c 0; ulimit -S -t {cpu}; ulimit -H -t {cpu_hard}; ulimit -v {memory}; ulimit -f {blocks}; "
    'ulimit -n {files}; exec "$@"'
)
_NOT_FOUND, _DIRECTORY, _NOT_A_FILE, _TOO_LARGE = 44, 45, 46, 47
_PROBLEMS = {
    _NOT_FOUND: ("not_found", "{!r} does not exist"),
    _DIRECTORY: ("is_directory", "{!r} is a directory"),
    _NOT_A_FILE: ("not_a_file", "{!r} is not a regular file"),
    _TOO_LARGE: ("too_large", "{!r} is too large"),
}
_READ = f'[ -e "$1" ] || exit {_NOT_FOUND}; [ ! -d "$1" ] || exit {_DIRECTORY}; [ -f "$1" ] || exit {_NOT_A_FILE}; '
_READ += f'[ "$(stat -L -c %s "$1")" -le "$2" ] || exit {_TOO_LARGE}; cat "$1"'
_WRITE = f'[ ! -d "$1" ] || exit {_DIRECTORY}; mkdir -p "$(dirname "$1")" && cat >"$1" && chmod "$2" "$1"'
_MKDIR = 'mkdir -p "$1"'
_REMOVE = f'[ -e "$1" ] || [ -L "$1" ] || exit {_NOT_FOUND}; rm -rf "$1"'
_CLEAR = 'find "$1" -mindepth 1 -maxdepth 1 -exec rm -rf {} +'
_LIST = f'[ -e "$1" ] || exit {_NOT_FOUND}; [ -d "$1" ] || exit {_NOT_A_FILE}; cd "$1" || exit 1; '
_LIST += 'find . -mindepth 1 -maxdepth "$2" -exec sh -c '
_LIST += """'for f; do stat -c "%f %s" "$f"; printf "%s\\0" "$f"; done' sh {} +"""
_PACK = f'[ -d "$1" ] || exit {_NOT_FOUND}; cd "$1" && tar -cf - .'
_UNPACK = 'mkdir -p "$1" && cd "$1" && tar -xf -'


class WithoutAgent:
    """Replaces the agent of one container."""

    def __init__(
        self, daemon: Daemon, container: str, *, user: str, workdir: str, environment: Mapping[str, str]
    ) -> None:
        self._daemon = daemon
        self._container = container
        self._user = user
        self._workdir = workdir
        self._environment = environment
        self._operations: dict[str, Callable[[Header, Sequence[bytes]], Frame]] = {
            "exec": self._exec,
            "read": self._read,
            "write": lambda header, blobs: self._file(_WRITE, header["path"], f"{header['mode']:o}", stdin=blobs[0]),
            "list": self._list,
            "remove": lambda header, _: self._file(_REMOVE, header["path"]),
            "mkdir": lambda header, _: self._file(_MKDIR, header["path"]),
            "pack": self._pack,
            "unpack": lambda header, blobs: self._file(_UNPACK, header["path"], stdin=from_archive(bytes(blobs[0]))),
            "clear": lambda *_: self._file(_CLEAR, "."),
            "health": self._health,
        }

    def answer_frame(self, frame: bytes) -> bytes:
        """Answer one request; both are complete frames."""
        return encode(*self.answer(*decode(frame)))

    def answer(self, header: Header, blobs: Sequence[bytes]) -> Frame:
        """Answer one request."""
        operation = self._operations.get(header["op"])
        if operation is None:
            return _problem("invalid", "the image has no python3, so sessions are not available; use exec with argv")
        try:
            return operation(header, blobs)
        except _RequestError as refused:
            return _problem(refused.kind, str(refused))

    def _exec(self, header: Header, blobs: Sequence[bytes]) -> Frame:
        if header["kind"] != "argv":
            return _problem("invalid", "the image has no python3, so it cannot run Python code; use exec with argv")
        limits = SandboxLimits(**header["limits"])
        limited = _LIMITED.format(
            cpu=math.ceil(limits.cpu_s),
            cpu_hard=math.ceil(limits.cpu_s) + 1,
            memory=limits.memory_mb * 1024,
            blocks=limits.file_mb * 2048,
            files=limits.open_files,
        )
        call = Call(
            argv=["sh", "-c", limited, "sh", *header["argv"]],
            user=self._user,
            cwd=self._path(header.get("cwd", ".")),
            wall_s=limits.wall_s,
            stdin=bytes(blobs[1]),
            env={**self._environment, **header.get("env", {})},
            output_bytes=limits.output_bytes,
        )
        outcome = run_call(self._daemon, self._container, call)
        return _header_of(outcome), [outcome.stdout, outcome.stderr, b""]

    def _read(self, header: Header, _: Sequence[bytes]) -> Frame:
        return {}, [self._output(_READ, header["path"], str(header["max_bytes"]), at_most=header["max_bytes"])]

    def _pack(self, header: Header, _: Sequence[bytes]) -> Frame:
        # A tar file is larger than its contents: half a kilobyte per entry, and padding.
        packed = self._output(_PACK, header["path"], at_most=2 * header["max_bytes"] + 10_000_000)
        try:
            return {}, [to_archive(packed, header["max_bytes"])]
        except ValueError as error:
            raise _RequestError("too_large", f"{header['path']!r}: {error}") from None

    def _list(self, header: Header, _: Sequence[bytes]) -> Frame:
        listed = self._output(_LIST, header["path"], str(header["depth"]), at_most=50_000_000)
        base = posixpath.normpath(posixpath.join(self._workdir, header["path"]))
        prefix = posixpath.relpath(base, self._workdir)
        entries = sorted(_entry(record, prefix) for record in listed.split(b"\0") if record)
        max_entries = header["max_entries"]
        return {"more": len(entries) > max_entries}, [files.table(entries[:max_entries])]

    def _health(self, _: Header, __: Sequence[bytes]) -> Frame:
        return {"healthy": self._output("echo well", ".") == b"well\n"}, []

    def _file(self, script: str, path: str, *arguments: str, stdin: bytes = b"") -> Frame:
        self._output(script, path, *arguments, stdin=bytes(stdin))
        return {}, []

    def _output(self, script: str, path: str, *arguments: str, stdin: bytes = b"", at_most: int = 64_000) -> bytes:
        """Run one of the scripts above on a path in the workspace and return its output."""
        argv = ["sh", "-c", script, "sh", self._path(path), *arguments]
        # Output beyond the limit loses its middle, so keep twice as much.
        call = Call(argv, self._user, self._workdir, _FILES_S, stdin=stdin, output_bytes=2 * at_most)
        outcome = run_call(self._daemon, self._container, call)
        if outcome.exit_code in _PROBLEMS:
            kind, text = _PROBLEMS[outcome.exit_code]
            raise _RequestError(kind, text.format(path))
        if outcome.exit_code != 0 or outcome.timed_out:
            raise _RequestError(*_why(outcome, path))
        if outcome.cut[0] or len(outcome.stdout) > at_most:
            raise _RequestError("too_large", f"{path!r} is too large")
        return outcome.stdout

    def _path(self, path: str) -> str:
        """Return a path in the workspace. Links are safe: the sandbox's user can read their targets anyway."""
        full = posixpath.normpath(posixpath.join(self._workdir, path))
        if "\0" in path:
            raise _RequestError("invalid", f"{path!r} contains a NUL character")
        if full != self._workdir and not full.startswith(self._workdir.rstrip("/") + "/"):
            raise _RequestError("outside", f"{path!r} is outside the workspace")
        return full


class _RequestError(Exception):
    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def _problem(kind: str, message: str) -> Frame:
    return {"error": kind, "message": message}, []


def _why(outcome: ContainerCallOutcome, path: str) -> tuple[str, str]:
    output = outcome.stderr.decode("utf-8", "replace").strip()[-300:]
    if "No space left" in output:
        return "no_space", f"no space left for {path!r}"
    return "invalid", f"{path!r}: {output or f'ended with {outcome.exit_code}'}"


def _header_of(outcome: ContainerCallOutcome) -> Header:
    """Return the header of an answer. Docker reports signals only as exit codes of 128 and more, like a shell."""
    number = outcome.exit_code - 128 if 128 < outcome.exit_code <= 192 else None
    ended = Ended.EXITED if number is None else Ended.SIGNALED
    if outcome.timed_out:
        ended = Ended.TIMEOUT
    elif outcome.flooded:
        ended = Ended.OUTPUT
    elif outcome.lost:
        ended = Ended.KILLED
    elif number == 24:
        ended = Ended.CPU
    elif number == 25:
        ended = Ended.FILE_SIZE
    return {
        "ended": str(ended),
        "exit_code": outcome.exit_code if ended is Ended.EXITED else None,
        "signal": number,
        "duration_s": outcome.duration_s,
        "cpu_s": 0.0,
        "peak_memory_mb": 0.0,
        "cut": list(outcome.cut),
        "alive": not outcome.lost,
    }


def _entry(record: bytes, prefix: str) -> list[Any]:
    state, _, name = record.partition(b"\n")
    mode, size = state.split()
    kind = {0o10: "file", 0o04: "dir", 0o12: "link"}.get(int(mode, 16) >> 12, "other")
    path = posixpath.normpath(posixpath.join(prefix, name.decode("utf-8", "surrogateescape")))
    return [path, kind, int(size) if kind == "file" else 0]
