"""Frames between a process and its DuckDB worker: a length, then JSON.

JSON and not pickle, because what comes out of a process that runs model-written SQL is data and nothing else.
"""

from __future__ import annotations

import datetime
import json
import struct
from typing import Any

from agentgym.tools.database.schema import Value

HEADER = struct.Struct(">I")
MAX_FRAME_BYTES = 1 << 30

Message = dict[str, Any]


def pack(message: Message) -> bytes:
    """Return `message` as one frame."""
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > MAX_FRAME_BYTES:
        raise ValueError(f"a message of {len(body)} bytes does not fit into a frame of {MAX_FRAME_BYTES} bytes")
    return HEADER.pack(len(body)) + body


def unpack(body: bytes | bytearray) -> Message:
    """Return the message in the body of a frame; `ValueError` if it is none."""
    message = json.loads(body)
    if not isinstance(message, dict):
        raise ValueError(f"a frame holds an object, not {type(message).__name__!r}")
    return message


def encode_value(value: Value) -> Any:
    """Return `value` as JSON can hold it: dates become tagged text."""
    if isinstance(value, datetime.datetime):
        return {"t": value.isoformat()}
    if isinstance(value, datetime.date):
        return {"d": value.isoformat()}
    return value


def decode_value(value: Any) -> Value:
    """Return the value that `encode_value` was given; `ValueError` if it cannot have been one."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    match value:
        case {"d": str(text)}:
            return datetime.date.fromisoformat(text)
        case {"t": str(text)}:
            return datetime.datetime.fromisoformat(text)
    raise ValueError(f"not a cell: {value!r}")


def encode_rows(rows: tuple[tuple[Value, ...], ...]) -> list[list[Any]]:
    """Return `rows` as JSON can hold them."""
    return [[encode_value(value) for value in row] for row in rows]


def decode_rows(rows: Any) -> tuple[tuple[Value, ...], ...]:
    """Return the rows that `encode_rows` was given."""
    return tuple(tuple(decode_value(value) for value in row) for row in rows)
