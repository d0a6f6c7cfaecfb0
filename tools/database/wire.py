"""Frames between a process and its DuckDB worker: a length, then JSON.

JSON rather than pickle, because a process that runs model-written SQL must send only data.
"""

from __future__ import annotations

import datetime
import json
import struct
from decimal import Decimal, InvalidOperation
from typing import Any

from agentgym.tools.database.schema import Value

HEADER = struct.Struct(">I")
MAX_FRAME_BYTES = 1 << 30

Message = dict[str, Any]


def pack(message: Message) -> bytes:
    """Encode `message` as one frame."""
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > MAX_FRAME_BYTES:
        raise ValueError(f"a message of {len(body)} bytes does not fit into a frame of {MAX_FRAME_BYTES} bytes")
    return HEADER.pack(len(body)) + body


def unpack(body: bytes | bytearray) -> Message:
    """Decode the body of a frame; `ValueError` if it is not a message."""
    message = json.loads(body)
    if not isinstance(message, dict):
        raise ValueError(f"a frame holds an object, not {type(message).__name__!r}")
    return message


def encode_value(value: Value) -> Any:
    """Convert `value` to JSON; dates and decimals become tagged text."""
    if isinstance(value, datetime.datetime):
        return {"t": value.isoformat()}
    if isinstance(value, datetime.date):
        return {"d": value.isoformat()}
    if isinstance(value, Decimal):
        return {"m": str(value)}
    return value


def decode_value(value: Any) -> Value:
    """Reverse `encode_value`; `ValueError` if the value is not a cell."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    match value:
        case {"d": str(text)}:
            return datetime.date.fromisoformat(text)
        case {"t": str(text)}:
            return datetime.datetime.fromisoformat(text)
        case {"m": str(text)}:
            return _decimal(text)
    raise ValueError(f"not a cell: {value!r}")


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"not a number: {text!r:.60}") from None


def encode_rows(rows: tuple[tuple[Value, ...], ...]) -> list[list[Any]]:
    """Convert `rows` to JSON."""
    return [[encode_value(value) for value in row] for row in rows]


def decode_rows(rows: Any) -> tuple[tuple[Value, ...], ...]:
    """Reverse `encode_rows`."""
    return tuple(tuple(decode_value(value) for value in row) for row in rows)
