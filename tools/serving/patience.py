"""How long, and with how much, a server waits for its clients."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Patience:
    """Limits on connections. Work that a server does for a whole request is limited elsewhere.

    Args:
        connections: Connections open at one time.
        header_s: Seconds from the first byte of a request, or from connecting, to the end of its headers.
        body_s: Seconds that a body may take, and that an answer may take to be read ...
        bytes_per_s: ... plus one second for each so many bytes that have passed.
        idle_s: Seconds that a connection is kept open after an answer.
        header_bytes: Size of the headers of one request.
        headers: Number of headers of one request.
        body_bytes: Size of the largest body of any request.
        held_bytes: Bytes of unfinished bodies and of unread answers, over all connections.
    """

    connections: int = 1024
    header_s: float = 10.0
    body_s: float = 20.0
    bytes_per_s: int = 16_384
    idle_s: int = 30
    header_bytes: int = 16_384
    headers: int = 100
    body_bytes: int = 1 << 20
    held_bytes: int = 128 << 20
