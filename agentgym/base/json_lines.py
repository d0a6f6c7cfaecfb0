"""Reads untrusted files of JSON objects, one per line. Every fault is reported with its file and line."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from agentgym.base.errors import UsageError

MAX_LINE = 256 * 2**20
"""Maximum length of a line in bytes."""

BOM = b"\xef\xbb\xbf"
"""The byte order mark that some programs write at the start of UTF-8 files."""
_BLOCK = 65_536

_log = logging.getLogger(__name__)


OnFault = Callable[[str, str], object]
"""Called with the location of a faulty line and what is wrong with it."""


def json_lines(
    path: Path, what: str, *, allow_torn: bool = False, on_fault: OnFault | None = None, nan_as_null: bool = False
) -> Iterator[tuple[str, Any]]:
    """Yield `(file:line, object)` for each line that is not empty.

    Args:
        path: The file.
        what: A name for the contents of a line, for the messages.
        allow_torn: Skip an unreadable last line without a newline, with a warning: a crash cut it off.
        on_fault: Called for each line that is not an object, instead of raising.
        nan_as_null: Read NaN and Infinity, which are not JSON, as null instead of refusing the line.

    Raises:
        UsageError: The file or one of its lines cannot be read, or a line is not an object.
    """
    try:
        with path.open("rb") as file:
            yield from _read(file, str(path), what, allow_torn, on_fault, nan_as_null)
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {error.strerror or error}") from error


def _read(
    file: Any, name: str, what: str, allow_torn: bool, on_fault: OnFault | None, nan_as_null: bool
) -> Iterator[tuple[str, Any]]:
    number = 0
    while line := file.readline(MAX_LINE):
        number += 1
        where = f"{name}:{number}"
        if number == 1:
            line = line.removeprefix(BOM)
        if not line.strip():
            continue
        ended = line.endswith(b"\n")
        if not ended and len(line) >= MAX_LINE:
            raise UsageError(f"{where}: the line is longer than {MAX_LINE // 2**20} MiB")
        try:
            value = parse_line(line, _LENIENT if nan_as_null else _STRICT)
        except ValueError as error:
            if on_fault is not None:
                on_fault(where, str(error))
                continue
            if ended or not (allow_torn and _is_torn(line)):
                raise UsageError(f"{where}: not {what}: {error}") from error
            _log.warning("%s: the last line was cut off, as by a crash; it is skipped", where)
        else:
            yield where, value


def _is_torn(line: bytes) -> bool:
    """Whether a crash may have left this line: the start of an object, or allocated space that was never filled."""
    return line.lstrip(b"\0 \t\r")[:1] in (b"{", b"")


def is_whole(line: bytes) -> bool:
    """Whether a line without a newline holds a complete object."""
    try:
        parse_line(line)
    except ValueError:
        return False
    return True


def mend_last_line(path: Path, beginning: bytes) -> None:
    """Make a file of ours end with a complete line: end the last one if it is complete, else remove it.

    Args:
        path: The file.
        beginning: How every line of such a file begins.

    Raises:
        UsageError: The file is not one of ours, so nothing of it may be removed.
    """
    if not path.is_file() or path.stat().st_size == 0:
        return
    with path.open("rb+") as file:
        head = file.read(len(BOM) + len(beginning)).removeprefix(BOM)
        is_ours = head[: len(beginning)] == beginning[: len(head)]
        file.seek(-1, os.SEEK_END)
        if file.read() == b"\n":
            return
        start = _start_of_last_line(file)
        file.seek(start)
        last = file.read()
        if is_whole(last):
            file.write(b"\n")
        elif is_ours and (start == 0 or _is_torn(last)):
            file.truncate(start)
        else:
            raise UsageError(
                f"cannot append to {str(path)!r}: its last line is cut off, but it does not begin as agentgym's files "
                "do, so that line is kept; name another file"
            )


def _start_of_last_line(file: BinaryIO) -> int:
    """Return the offset of the last line, reading backwards because result files are large."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        begin = max(0, end - _BLOCK)
        file.seek(begin)
        if (newline := file.read(end - begin).rfind(b"\n")) >= 0:
            return begin + newline + 1
        end = begin
    return 0


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


_STRICT = json.JSONDecoder(parse_constant=_refused)
_LENIENT = json.JSONDecoder(parse_constant=lambda _: None)


def parse_line(line: bytes, decoder: json.JSONDecoder = _STRICT) -> dict[str, Any]:
    """Return the object in a line. Raises `ValueError` with a message for users."""
    try:
        value = decoder.decode(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text (byte {error.start + 1} of the line)") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg}, at character {error.pos + 1} of the line") from None
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if type(value) is not dict:
        raise ValueError(f"a JSON object is expected on each line, not {_KINDS.get(type(value), 'null')}")
    return value


_KINDS = {bool: "a boolean", str: "a string", int: "a number", float: "a number", list: "a list"}
