"""`EnvConnection`: one client's session on an environment server, over a WebSocket that is reopened if it breaks."""

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

from agentgym.base.errors import InfrastructureError, UsageError, require
from agentgym.interop.served.wire import BUSY, GONE, PROTOCOL, STREAM, decoded, encoded, error_of

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

TOKEN_VARIABLE = "AGENTGYM_TOKEN"
_CLOSE_S = 5.0
_MARGIN_S = 10.0
"""Extra wait beyond the server's own time limit, so that the server can report its timeout."""
_CONNECT_S = 10.0
_LONGEST_PAUSE_S = 2.0
_GOODBYE_S = 1.0
"""A live server confirms the end of a connection at once."""
_REFUSED = (401, 403)
_MOST_BYTES = 1 << 28
"""Maximum size of a reply."""


@dataclass(frozen=True)
class Address:
    """The address of an environment server, and how long to wait for it.

    Args:
        url: The server's URL, `http://` or `https://`.
        token: Its token; by default the environment variable `AGENTGYM_TOKEN`.
        answer_s: Seconds to wait for a reply; by default the server's own time limit and a margin.
        reconnect_s: Seconds to keep retrying while the server is unreachable or full.
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
    def headers(self) -> list[tuple[str, str]]:
        """The headers that carry the token, if there is one."""
        token = self.token or os.environ.get(TOKEN_VARIABLE)
        return [("Authorization", f"Bearer {token}")] if token else []


class _NotSent(UsageError):
    """A request that was not sent."""


class EnvConnection:
    """A session of one environment. It begins with the first request, and again with the first one after `close`.

    A request whose reply was lost is sent again under its number, so that the server answers it without playing it a
    second time. Requests from several threads wait for each other.

    Args:
        address: The server.
        opening: The content of the `open` request: the environment and its arguments.
    """

    def __init__(self, address: Address, opening: Mapping[str, Any]):
        require("websockets", "serve")
        self._address, self._opening = address, opening
        self._lock = threading.RLock()
        self._forget()
        self._socket: ClientConnection | None = None
        self._most_bytes: int | None = None
        self._answer_s = address.answer_s or 60.0
        self._ids = itertools.count(1)
        self._process = os.getpid()

    def _forget(self) -> None:
        self._session: str | None = None
        self._number = 0

    def begin(self) -> dict[str, Any]:
        """Begin a session and return the server's description of the environment.

        Raises:
            UsageError: The server refuses the token, the environment or its arguments, or serves no environments.
            InfrastructureError: The server is unreachable or full.
        """
        with self._lock:
            result = self._exchange({"op": "open", "protocol": PROTOCOL, **self._opening})
            self._session, self._number = str(result.get("session")), 0
            description = result.get("description")
            if not isinstance(description, dict):
                raise UsageError(f"{self._address.url} does not serve environments")
            if self._address.answer_s is None:
                self._answer_s = float(description.get("request_s", 60.0)) + _MARGIN_S
            self._most_bytes = description.get("request_bytes")
            return description

    def ask(self, op: str, **content: Any) -> dict[str, Any]:
        """Send a request that does not change the episode. Raises the error that the server reports."""
        return self._request({"op": op, **content}, changes=False)

    def act(self, op: str, **content: Any) -> dict[str, Any]:
        """Send a request that changes the episode; it runs once, even if the connection breaks. Raises as `ask`."""
        return self._request({"op": op, **content}, changes=True)

    def close(self) -> None:
        """End the session. Never raises: a server that cannot be reached ends it by itself."""
        with self._lock:
            self._leave_parent()
            if self._session is not None and self._socket is not None:
                with suppress(Exception):
                    self._socket.send(encoded({"id": 0, "op": "close", "session": self._session}), text=True)
                    self._socket.recv(_CLOSE_S)
            self._forget()
            self._disconnect()

    def _request(self, content: Mapping[str, Any], *, changes: bool) -> dict[str, Any]:
        with self._lock:
            self._leave_parent()
            if self._session is None:
                self.begin()
            request = {**content, "session": self._session}
            if changes:
                self._number += 1
                request["number"] = self._number
            try:
                return self._exchange(request)
            except _NotSent:
                self._number -= changes
                raise
            except Exception as error:
                if isinstance(error.__cause__, OSError):
                    self.leave()
                raise
            except BaseException:
                self.leave()
                raise

    def leave(self) -> None:
        """Abandon the session, whose state is unknown. The server ends it once it is idle."""
        self._forget()
        self._disconnect()

    def _leave_parent(self) -> None:
        """In a forked child, leave the session to the parent, which still uses it."""
        if self._process != os.getpid():
            self._forget()
            socket, self._socket, self._process = self._socket, None, os.getpid()
            if socket is not None:
                socket.socket.close()

    def _exchange(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request until the server answers it, and return the result."""
        until, pauses = time.monotonic() + self._address.reconnect_s, _pauses()
        while True:
            try:
                reply = self._once(content)
            except OSError as error:
                self._disconnect()
                problem = InfrastructureError(f"cannot reach the environment server {self._address.url}: {error}")
                problem.__cause__ = error
            else:
                if (refusal := reply.get("error")) is None:
                    return self._result_in(reply)
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

    def _result_in(self, reply: Mapping[str, Any]) -> dict[str, Any]:
        result = reply.get("result")
        if not isinstance(result, dict):
            self.leave()
            raise InfrastructureError(f"a reply from {self._address.url} has neither a result nor an error")
        return result

    def _once(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return its reply. Raises `OSError` if the connection breaks or the reply is late."""
        number = next(self._ids)
        try:
            text = encoded({"id": number, **content})
        except UsageError as error:
            raise _NotSent(str(error)) from error
        if self._most_bytes is not None and len(text) > self._most_bytes:
            raise _NotSent(f"a request of {len(text)} bytes: {self._address.url} accepts {self._most_bytes} at most")
        from websockets.exceptions import ConnectionClosed

        socket = self._open_socket()
        try:
            socket.send(text, text=True)
            while (reply := _read(socket.recv(self._answer_s, decode=False))).get("id") not in (number, None):
                pass  # a late reply to an abandoned request
        except ConnectionClosed as error:
            raise ConnectionError(f"the connection was closed: {error}") from error
        except TimeoutError:
            raise TimeoutError(f"no reply within {self._answer_s:g} s") from None
        return reply

    def _open_socket(self) -> ClientConnection:
        """Return the open WebSocket; connect if there is none."""
        if self._socket is None:
            from websockets.exceptions import InvalidHandshake, InvalidStatus
            from websockets.sync.client import connect

            try:
                self._socket = connect(
                    self._address.stream,
                    additional_headers=self._address.headers,
                    compression=None,
                    max_size=_MOST_BYTES,
                    open_timeout=_CONNECT_S,
                    ping_interval=None,  # the server sends pings
                    close_timeout=_GOODBYE_S,
                    proxy=None,
                ).__enter__()  # closed in `_disconnect`
            except InvalidStatus as refused:
                status = refused.response.status_code
                if status not in _REFUSED:
                    raise ConnectionError(f"the server answered {status} instead of opening a WebSocket") from None
                problem = f"{self._address.url} refuses the token, or serves no environments"
                raise UsageError(f"{problem}; pass token=... or set {TOKEN_VARIABLE}") from None
            except InvalidHandshake as error:
                raise ConnectionError(f"the WebSocket handshake failed: {error}") from error
        return self._socket

    def _disconnect(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close()


def _read(text: bytes) -> dict[str, Any]:
    """Return a reply. Raises `ConnectionError` if it is malformed: then this is another kind of server."""
    try:
        return decoded(text)
    except UsageError as error:
        raise ConnectionError(f"malformed reply: {error}") from error


def _pauses() -> Iterator[float]:
    """Yield the pauses between attempts: growing, with jitter."""
    for power in itertools.count():
        yield min(_LONGEST_PAUSE_S, 0.05 * 2**power) * (0.5 + random.random())
