"""`Connection`: one client's session on a server of environments, over a WebSocket that is reopened if it breaks."""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agentgym.errors import InfrastructureError, UsageError, require
from agentgym.interop.remote.wire import BUSY, GONE, PROTOCOL, STREAM, decoded, encoded, error_of

if TYPE_CHECKING:
    from websocket import WebSocket

TOKEN_VARIABLE = "AGENTGYM_TOKEN"
_CLOSE_S = 5.0
_CONNECT_S = 10.0
_LONGEST_PAUSE_S = 2.0
_REFUSED = (401, 403)


class _Refused(UsageError):
    """The server refuses the token; trying again is no use."""


@dataclass(frozen=True)
class Address:
    """Where environments are served, and how long to wait for them.

    Args:
        url: The server's URL, `http://` or `https://`.
        token: Its token; by default the environment variable `AGENTGYM_TOKEN`.
        answer_s: Seconds to wait for a reply; by default as long as the server says that a request may take, and a
            margin.
        reconnect_s: Seconds to try again while the server cannot be reached, or has no room.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    answer_s: float | None = None
    reconnect_s: float = 30.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{self.url!r} is not the URL of a server; it looks like http://127.0.0.1:8000")

    @property
    def stream(self) -> str:
        """The URL of the WebSocket."""
        return "ws" + self.url.removeprefix("http").rstrip("/") + STREAM

    @property
    def headers(self) -> list[str]:
        """The headers that carry the token, if there is one."""
        token = self.token or os.environ.get(TOKEN_VARIABLE)
        return [f"Authorization: Bearer {token}"] if token else []


class Connection:
    """A session of one environment. It begins with the first request, and again with the first one after `close`.

    A request whose reply was lost is sent again under its number, so that the server answers it without playing it a
    second time. Requests of several threads wait for each other.

    Args:
        address: The server.
        opening: What `open` asks for: the environment and its arguments.
    """

    def __init__(self, address: Address, opening: Mapping[str, Any]):
        require("websocket", "remote")
        self._address, self._opening = address, opening
        self._lock = threading.RLock()
        self._forget()
        self._socket: WebSocket | None = None
        self._answer_s = address.answer_s or 60.0
        self._ids = itertools.count(1)
        self._process = os.getpid()

    def _forget(self) -> None:
        self._session: str | None = None
        self._number = 0

    def begin(self) -> dict[str, Any]:
        """Begin a session and return the server's description of the environment.

        Raises:
            UsageError: The server refuses the token, the environment or its arguments, or is not one of ours.
            InfrastructureError: It cannot be reached, or has no room.
        """
        with self._lock:
            begun = self._exchange({"op": "open", "protocol": PROTOCOL, **self._opening})
            self._session, self._number = str(begun.get("session")), 0
            description = begun.get("description")
            if not isinstance(description, dict):
                raise UsageError(f"{self._address.url} does not serve environments")
            if self._address.answer_s is None:
                self._answer_s = float(description.get("request_s", 60.0)) + 10.0
            return description

    def ask(self, op: str, **content: Any) -> dict[str, Any]:
        """Ask what changes nothing in the episode. Raises whatever the server reports."""
        return self._request({"op": op, **content}, changes=False)

    def act(self, op: str, **content: Any) -> dict[str, Any]:
        """Change the episode; done exactly once, even if the connection breaks meanwhile. Raises as `ask`."""
        return self._request({"op": op, **content}, changes=True)

    def close(self) -> None:
        """End the session. Never raises: a server that cannot be reached ends it by itself."""
        with self._lock:
            if self._session is not None and self._socket is not None and self._process == os.getpid():
                with suppress(Exception):
                    self._socket.settimeout(_CLOSE_S)
                    self._socket.send(encoded({"id": 0, "op": "close", "session": self._session}))
                    self._socket.recv()
            self._forget()
            self._disconnect()

    def _request(self, content: Mapping[str, Any], *, changes: bool) -> dict[str, Any]:
        with self._lock:
            if self._session is None:
                self.begin()
            asked = {**content, "session": self._session}
            if changes:
                self._number += 1
                asked["number"] = self._number
            return self._exchange(asked)

    def _exchange(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request until it is answered, and return the result."""
        until, pauses = time.monotonic() + self._address.reconnect_s, _pauses()
        while True:
            try:
                reply = self._once(content)
            except OSError as error:
                self._disconnect()
                problem = InfrastructureError(f"the environment server {self._address.url} cannot be reached: {error}")
                problem.__cause__ = error
            else:
                if (refusal := reply.get("error")) is None:
                    return reply.get("result") or {}
                problem = error_of(refusal)
                kind = refusal.get("kind") if isinstance(refusal, Mapping) else None
                if kind == GONE:
                    self._forget()
                if kind != BUSY:
                    raise problem
            pause = next(pauses)
            if time.monotonic() + pause > until:
                raise problem
            time.sleep(pause)

    def _once(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return its reply. Raises `OSError` if the connection breaks or the reply is late."""
        from websocket import WebSocketException

        number = next(self._ids)
        try:
            socket = self._connected()
            socket.send(encoded({"id": number, **content}))
            while (reply := decoded(socket.recv())).get("id") != number:
                pass  # the reply to a request that was given up
            return reply
        except _Refused:
            raise
        except (WebSocketException, UsageError) as error:
            raise ConnectionError(f"{type(error).__name__}: {error}") from error

    def _connected(self) -> WebSocket:
        """Return the open WebSocket, a new one if it broke or this is another process."""
        if self._process != os.getpid():  # the parent goes on to use its own
            self._socket, self._process = None, os.getpid()
        if self._socket is None:
            self._socket = self._connect()
        self._socket.settimeout(self._answer_s)
        return self._socket

    def _connect(self) -> WebSocket:
        from websocket import WebSocketBadStatusException, create_connection

        try:
            return create_connection(
                self._address.stream,
                timeout=_CONNECT_S,
                header=self._address.headers,
                enable_multithread=False,  # our own lock is there
                skip_utf8_validation=True,
            )
        except WebSocketBadStatusException as error:
            if error.status_code in _REFUSED:
                raise _Refused(
                    f"{self._address.url} refuses the token; pass token=... or set {TOKEN_VARIABLE}"
                ) from None
            raise

    def _disconnect(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None and self._process == os.getpid():
            with suppress(Exception):
                socket.shutdown()


def _pauses() -> Iterator[float]:
    """Yield the pauses between tries: growing, and different for each client."""
    for power in itertools.count():
        yield min(_LONGEST_PAUSE_S, 0.05 * 2**power) * (0.5 + random.random())
