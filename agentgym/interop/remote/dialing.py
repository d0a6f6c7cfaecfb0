"""`Dialled`: a client's side of a WebSocket: it connects, shakes hands, and is a `Channel` from then on."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import urlsplit

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidStatus
from websockets.uri import parse_uri

from agentgym.eagerness import Eagerness
from agentgym.interop.remote.channel import Channel, timeval

_PIECE_BYTES = 1 << 16
_MOMENT_S = 0.0002
"""Seconds to look for a quick reply."""
_MOST_BYTES = 1 << 28
"""Largest reply that is taken."""


class Refused(ConnectionError):
    """The server answered the handshake with an error; `status` says which."""

    def __init__(self, status: int):
        super().__init__(f"the server answers {status} instead of opening a WebSocket")
        self.status = status


class Dialled:
    """An open WebSocket of a client.

    Args:
        url: Where, `ws://` or `wss://`.
        headers: Headers of the handshake.
        timeout_s: Seconds for each wait until it is open.

    Raises:
        Refused: The server refuses.
        OSError: It cannot be reached.
    """

    def __init__(self, url: str, headers: Iterable[tuple[str, str]], timeout_s: float):
        self._socket = _connected(url, timeout_s)
        self._timeout_s: float | None = None
        # TLS reads whole records, for which it cannot look.
        self._eagerness = Eagerness(0.0 if isinstance(self._socket, ssl.SSLSocket) else _MOMENT_S)
        try:
            protocol = self._shake_hands(url, headers)
        except BaseException:
            self._socket.close()
            raise
        self._channel = Channel(protocol, self._read, self._socket.sendall, _MOST_BYTES)

    def send(self, text: bytes, timeout_s: float) -> None:
        """Send a message, and wait at most `timeout_s` for each part of the reply. Raises `OSError` if it breaks."""
        if timeout_s != self._timeout_s:
            self._be_patient(timeout_s)
        self._channel.send(text)

    def receive(self) -> bytes:
        """Return the next message. Raises `OSError` if it is late, or the server has closed the connection."""
        message = self._channel.receive()
        if message is None:
            raise ConnectionError("the server has closed the connection")
        return message

    def close(self) -> None:
        """Close the connection. Never raises."""
        with suppress(OSError):
            self._channel.close(1000)
        self._socket.close()

    def drop(self) -> None:
        """Release the socket, and leave the connection to the process that shares it."""
        self._socket.close()

    def _read(self, _: int) -> bytes:
        try:
            return self._eagerness.wait(self._look, lambda: self._socket.recv(_PIECE_BYTES))
        except BlockingIOError:
            raise TimeoutError(f"no reply within {self._timeout_s:g} s") from None

    def _look(self) -> bytes | None:
        try:
            return self._socket.recv(_PIECE_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None

    def _be_patient(self, timeout_s: float) -> None:
        """Set the time for each part of a message.

        The system keeps it where it can: Python would ask before every read and write whether it can be done.
        """
        self._timeout_s = timeout_s
        if isinstance(self._socket, ssl.SSLSocket):
            self._socket.settimeout(timeout_s)
            return
        self._socket.setblocking(True)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._socket.setsockopt(socket.SOL_SOCKET, option, timeval(timeout_s))

    def _shake_hands(self, url: str, headers: Iterable[tuple[str, str]]) -> ClientProtocol:
        protocol = ClientProtocol(parse_uri(url), max_size=None)
        request = protocol.connect()
        request.headers.update(headers)
        protocol.send_request(request)
        self._socket.sendall(b"".join(protocol.data_to_send()))
        while not protocol.events_received():
            if protocol.handshake_exc is not None:
                raise _problem(protocol.handshake_exc)
            data = self._socket.recv(_PIECE_BYTES)
            if not data:
                protocol.receive_eof()
                raise _problem(protocol.handshake_exc)
            protocol.receive_data(data)
        if protocol.handshake_exc is not None:
            raise _problem(protocol.handshake_exc)
        return protocol


def _connected(url: str, timeout_s: float) -> socket.socket:
    parts = urlsplit(url)
    host, is_secure = str(parts.hostname), parts.scheme == "wss"
    made = socket.create_connection((host, parts.port or (443 if is_secure else 80)), timeout=timeout_s)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return ssl.create_default_context().wrap_socket(made, server_hostname=host) if is_secure else made


def _problem(error: Exception | None) -> Exception:
    if isinstance(error, InvalidStatus):
        return Refused(error.response.status_code)
    if isinstance(error, InvalidHandshake):
        return ConnectionError(f"the server opens no WebSocket: {error}")
    return ConnectionError("the server closed the connection before the WebSocket was open")
