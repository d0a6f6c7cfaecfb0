"""Decodes text files so that encoding the text returns the same bytes. Needs only the standard library.

The text of this module is also sent to sandboxes, where a search decodes files in the same way.
"""

from __future__ import annotations

import codecs
import re

_CODING_LINE = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK_OR_COMMENT = re.compile(rb"[ \t\f]*(#.*)?\r?$")
_PLAIN = bytes(range(32, 92)) + bytes(range(93, 127)) + b"\n\\u0041+AGE-"
"""Bytes that every supported codec decodes as ASCII does."""


def decode_file(data: bytes) -> tuple[str, str] | None:
    """Return the text of a file and its codec, or `None` for binary contents, which have NUL characters.

    The codec is the one that a coding line names (PEP 263), else UTF-8, else Latin-1. A byte order mark is not part of
    the text; the codec writes it again.
    """
    if b"\0" in data:
        return None
    utf_8 = "utf-8-sig" if data.startswith(codecs.BOM_UTF8) else "utf-8"
    for codec in (named_codec(data), utf_8):
        if codec is not None:
            try:
                text = data.decode(codec)
                if text.encode(codec) == data:
                    return text, codec
            except UnicodeError:
                continue
    return data.decode("latin-1"), "latin-1"


def named_codec(data: bytes) -> str | None:
    """Return the codec that a coding line in the first two lines names, if it is known and extends ASCII."""
    for line in data.split(b"\n", 2)[:2]:
        match = _CODING_LINE.match(line)
        if match is not None:
            name = match[1].decode("ascii", "replace")
            try:
                return name if _PLAIN.decode(name) == _PLAIN.decode("ascii") else None
            except (LookupError, UnicodeError):
                return None
        if not _BLANK_OR_COMMENT.match(line):
            return None
    return None


def split_lines(text: str) -> list[str]:
    r"""Return the lines of a text with their ends. Only `\n` ends a line, as in patches and tracebacks."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + lines[-1:] * bool(lines[-1])


def without_end(line: str) -> str:
    r"""Return a line without `\n` or `\r\n` at its end."""
    line = line[:-1] if line.endswith("\n") else line  # not `removesuffix`: a sandbox may have an older Python
    return line[:-1] if line.endswith("\r") else line
