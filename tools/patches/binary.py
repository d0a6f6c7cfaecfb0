"""Git's encoding of binary contents in patches (`GIT binary patch`, `literal`), and git's blob hashes."""

from __future__ import annotations

import base64
import hashlib
import string
import zlib

from agentgym.tools.patches.model import PatchError

MAX_BYTES = 64 * 2**20
"""Maximum size of binary contents in a patch."""
_LENGTHS = string.ascii_uppercase + string.ascii_lowercase
_ROW = 52


def is_binary(data: bytes) -> bool:
    """Return whether contents cannot be text in a patch: they contain a NUL or are not UTF-8."""
    if b"\0" in data:
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def blob_hash(data: bytes | None) -> str:
    """Return git's hash of the contents; all zeros for a file that does not exist."""
    if data is None:
        return "0" * 40
    return hashlib.sha1(b"blob %d\0%b" % (len(data), data), usedforsecurity=False).hexdigest()


def encode_literal(data: bytes) -> str:
    """Return a `literal` block, including the empty line at its end."""
    packed = zlib.compress(data, 9)
    rows = [packed[start : start + _ROW] for start in range(0, len(packed), _ROW)]
    encoded = (_LENGTHS[len(row) - 1] + base64.b85encode(row, pad=True).decode() for row in rows)
    return f"literal {len(data)}\n" + "".join(f"{row}\n" for row in encoded) + "\n"


def decode_literal(size: int, rows: list[str], line: int) -> bytes:
    """Decode a `literal` block. Raises `PatchError` if it is corrupt or too large."""
    if size > MAX_BYTES:
        raise PatchError(f"binary contents of {size} bytes are over the limit of {MAX_BYTES}", line)
    packed = bytearray()
    for number, row in enumerate(rows, start=line):
        try:
            length = _LENGTHS.index(row[0]) + 1
            packed += base64.b85decode(row[1:])[:length]
        except ValueError as error:
            raise PatchError(f"not a row of binary contents: {row[:60]!r}", number) from error
    unpacker = zlib.decompressobj()
    try:
        # One byte more than announced, to detect contents that are too long.
        data = unpacker.decompress(bytes(packed), size + 1)
    except zlib.error as error:
        raise PatchError(f"binary contents are corrupt: {error}", line) from error
    if len(data) != size or not (unpacker.eof or size == 0):
        raise PatchError(f"binary contents have {len(data)} bytes, not the announced {size}", line)
    return data
