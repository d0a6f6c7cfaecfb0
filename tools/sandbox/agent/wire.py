"""Frames between the driver and the agent: a length, a JSON header, then blobs whose lengths the header lists.

JSON and raw bytes, never pickle: neither side runs what the other says. Both sides bound what they accept.
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
    """The other side sent something that is no frame, or one that is too large."""


def encode_header(header: Header) -> bytes:
    """Return a header as it travels."""
    return _encode(header).encode("ascii")


def encode(header: Header, blobs: Sequence[bytes] = ()) -> bytes:
    """Return one frame."""
    text = encode_header({**header, "blobs": [len(blob) for blob in blobs]})
    if len(text) > MAX_HEADER_BYTES:
        raise BadFrame(f"a header of {len(text)} bytes is above {MAX_HEADER_BYTES}")
    return b"".join([LENGTH.pack(len(text)), text, *blobs])


def decoder(max_blob_bytes: int = MAX_BLOB_BYTES) -> Generator[int, bytes, Frame]:
    """Read one frame without doing input or output: yields how many bytes it needs next, is sent them."""
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
    """Return the header of a frame of which all has come."""
    if len(frame) < LENGTH.size:
        raise BadFrame("the frame is cut short")
    (size,) = LENGTH.unpack_from(frame)
    if size > MAX_HEADER_BYTES:
        raise BadFrame(f"a header of {size} bytes was announced, at most {MAX_HEADER_BYTES} are accepted")
    return decode_header(frame[LENGTH.size : LENGTH.size + size])


def decode_header(text: bytes) -> Header:
    """Return a header."""
    try:
        header, end = _decode(text.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"the header is no JSON: {error}") from None
    if end != len(text):
        raise BadFrame(f"the header is followed by {len(text) - end} bytes more")
    if not isinstance(header, dict):
        raise BadFrame(f"the header is {type(header).__name__!r}, not an object")
    return header


def _with_sizes(text: bytes) -> Header:
    header = decode_header(text)
    sizes = header.setdefault("blobs", [])
    if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
        raise BadFrame(f"the lengths of the blobs are {sizes!r}")
    return header
