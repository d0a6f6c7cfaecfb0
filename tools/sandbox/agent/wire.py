"""Frames between the driver and the agent: a length, a JSON header, then blobs whose lengths the header lists.

JSON and raw bytes, never pickle: neither side executes the other's data. Both sides limit what they accept.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Generator, Sequence
from typing import Any

LENGTH = struct.Struct(">I")
MAX_HEADER_BYTES = 1 << 20
MAX_BLOB_BYTES = 1 << 30

_encode = json.JSONEncoder(separators=(",", ":")).encode
_decode = json.JSONDecoder().raw_decode

Header = dict[str, Any]
Frame = tuple[Header, list[bytes]]


class BadFrame(ValueError):
    """The other side sent an invalid or too large frame."""


def encode_header(header: Header) -> bytes:
    """Encode a header."""
    return _encode(header).encode("ascii")


def encode(header: Header, blobs: Sequence[bytes] = ()) -> bytes:
    """Encode one frame."""
    text = encode_header({**header, "blobs": [len(blob) for blob in blobs]})
    if len(text) > MAX_HEADER_BYTES:
        raise BadFrame(f"the header has {len(text)} bytes; at most {MAX_HEADER_BYTES} are allowed")
    return b"".join([LENGTH.pack(len(text)), text, *blobs])


def decoder(max_blob_bytes: int = MAX_BLOB_BYTES) -> Generator[int, bytes, Frame]:
    """Decode one frame without I/O: yields the number of bytes it needs next, and receives them."""
    (size,) = LENGTH.unpack((yield LENGTH.size))
    if not 0 < size <= MAX_HEADER_BYTES:
        raise BadFrame(f"a header of {size} bytes was announced, at most {MAX_HEADER_BYTES} are accepted")
    header = _with_sizes((yield size))
    sizes = header.pop("blobs")
    if sum(sizes) > max_blob_bytes:
        raise BadFrame(f"{sum(sizes)} bytes of content were announced, at most {max_blob_bytes} are accepted")
    blobs = []
    for size in sizes:
        blobs.append((yield size) if size else b"")
    return header, blobs


def header_of(frame: bytes) -> Header:
    """Return the header of a complete frame."""
    if len(frame) < LENGTH.size:
        raise BadFrame("the frame is truncated")
    (size,) = LENGTH.unpack_from(frame)
    if size > MAX_HEADER_BYTES:
        raise BadFrame(f"a header of {size} bytes was announced, at most {MAX_HEADER_BYTES} are accepted")
    return decode_header(frame[LENGTH.size : LENGTH.size + size])


def decode_header(text: bytes) -> Header:
    """Decode a header."""
    try:
        header, end = _decode(text.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"the header is not JSON: {error}") from None
    if end != len(text):
        raise BadFrame(f"{len(text) - end} extra bytes follow the header")
    if not isinstance(header, dict):
        raise BadFrame(f"the header is {type(header).__name__!r}, not an object")
    return header


def _with_sizes(text: bytes) -> Header:
    header = decode_header(text)
    sizes = header.setdefault("blobs", [])
    if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
        raise BadFrame(f"the blob lengths are {sizes!r}")
    return header
