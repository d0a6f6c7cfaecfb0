"""How long a server waits for its clients, and how much it buffers for them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits on connections. The work for complete requests is limited elsewhere.

    Args:
        connections: Open connections at a time.
        header_s: Seconds from the first byte of a request, or from connecting, to the end of its headers.
        body_s: Seconds for sending a body, and for reading an answer ...
        bytes_per_s: ... plus one second for each this many bytes transferred.
        idle_s: Seconds to keep a connection open after an answer.
        header_bytes: Size of the headers of one request.
        headers: Number of headers of one request.
        body_bytes: Maximum size of a request's body.
        held_bytes: Total bytes of incomplete bodies and unread answers, over all connections.
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
