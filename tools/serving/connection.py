"""An HTTP connection with deadlines: uvicorn's h11 connection as a member of a crowd."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from agentgym.tools.serving.crowd import Crowd
from agentgym.tools.serving.limits import ConnectionLimits
from agentgym.tools.serving.presence import Presence
from agentgym.tools.serving.stopping import until_stopped

_PARTING_S = 2.0
"""Seconds for a client to read an error, while its further data is discarded."""
_RETRY_S = 1
_CLOSES = b"\r\nconnection: close\r\n"


class GuardedConnection(H11Protocol):
    """A connection in a crowd; `guarded` creates the class for one server.

    Errors that need no application (malformed HTTP, no length, too many headers, too slow) are sent here, as one line
    of JSON. Pipelined requests are not read: the connection closes after the answer.
    """

    crowd: Crowd

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        limits = self.crowd.limits
        self.conn = _Parser(limits)
        self.peer = ""
        self.held_bytes = 0
        self.presence = Presence()
        # The application reads it from request.state.presence.
        self.app_state = {**self.app_state, "presence": self.presence}
        self.app = until_stopped(self.app, self.presence)
        self._awaited = ""
        self._since = 0.0
        self._unread_bytes = 0
        self._parting = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Join the crowd, or refuse the connection."""
        super().connection_made(transport)
        self.peer = self.client[0] if self.client else ""
        if self.crowd.join(self):
            self._await("headers")
        else:
            self._refuse(503, "the server has reached its limit of connections; try again later")
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the crowd, and report the client as gone to its request's work."""
        self.presence.gone = True
        self.crowd.leave(self)
        super().connection_lost(exc)
        # uvicorn leaves its timer running if the connection breaks.
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """Process received data, in pieces within the header limit while waiting for headers."""
        if self._parting:
            return
        at, size = 0, self.crowd.limits.header_bytes
        while at < len(data) and not self.transport.is_closing() and not self._parting:
            if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
                if self._awaited == "nothing":
                    self._await("headers")
                piece = data[at : at + size] if self.conn.their_state is h11.IDLE else data[at:]
                super().data_received(piece)
                at += len(piece)
                self._note(len(piece))
            else:
                self.cycle.keep_alive = False
                return

    def _note(self, size: int) -> None:
        """Update what the connection waits for."""
        if self._parting or self.transport.get_protocol() is not self:
            return
        if self.conn.their_state is h11.SEND_BODY:
            if self._awaited != "body":
                self._await("body")
            self.crowd.hold(self, self.held_bytes + size)
        elif self.conn.their_state is not h11.IDLE:
            if self.conn.trailing_data[0]:
                # The client pipelined a request. Keep reading: it is the only way to notice that the client left.
                self.cycle.keep_alive = False
                self.flow.resume_reading()
            self._awaited = ""
            self.crowd.work_for(self)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the connection over to a WebSocket, which stays a member of the crowd until it closes."""
        self._awaited = ""
        self.crowd.work_for(self)
        super().handle_websocket_upgrade(event)
        stream = self.transport.get_protocol()
        lost = stream.connection_lost

        def leave(error: Exception | None) -> None:
            self.crowd.leave(self)
            lost(error)

        stream.connection_lost = leave  # type: ignore[method-assign]

    def on_response_complete(self) -> None:
        """Wait for the next request, or close the connection if the client is still sending this one's body."""
        unread = self.conn.their_state is h11.SEND_BODY or self.conn.announced_close
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if unread:
            self._part()
        elif not self.flow.write_paused:
            self._await("nothing")

    def pause_writing(self) -> None:
        """Note that the client is reading its answer too slowly."""
        super().pause_writing()
        self._await("reading")
        self._unread_bytes = self.transport.get_write_buffer_size()
        self.crowd.hold(self, self._unread_bytes)

    def resume_writing(self) -> None:
        """Note that the client has caught up."""
        super().resume_writing()
        if self._awaited != "reading":
            return
        if self.cycle.response_complete:
            self.crowd.hold(self, 0)
            self._await("nothing")
        else:
            self._awaited = ""
            self.crowd.work_for(self)

    def is_overdue(self, now: float) -> bool:
        """Whether the client has exceeded its deadline."""
        limits, passed_s = self.crowd.limits, now - self._since
        if self.transport.is_closing() and self._awaited not in ("reading", "parting"):
            self._await("parting")
            return False
        if self._awaited == "parting":
            return passed_s > _PARTING_S
        if self._awaited == "headers":
            return passed_s > limits.header_s
        if self._awaited == "body":
            return passed_s > limits.body_s + self.held_bytes / limits.bytes_per_s
        if self._awaited == "reading":
            read = self._unread_bytes - self.transport.get_write_buffer_size()
            return passed_s > limits.body_s + read / limits.bytes_per_s
        return False

    def time_out(self) -> None:
        """Close the connection, with a timeout error if one can still be sent."""
        began = self.conn.their_state is h11.SEND_BODY or bool(self.conn.trailing_data[0])
        if self._parting or self.transport.is_closing() or self._awaited == "reading" or not began:
            self.drop()
        else:
            self._refuse(408, f"the {self._awaited} of the request took too long")

    def drop(self) -> None:
        """Close the connection immediately."""
        self._leave_application()
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Report why a request is malformed. uvicorn calls it when h11 has raised."""
        error = sys.exc_info()[1]
        if isinstance(error, h11.RemoteProtocolError):
            self._refuse(error.error_status_hint, f"malformed request: {error}")
        else:
            self._refuse(400, msg)

    def shutdown(self) -> None:
        """Let an answer in progress be sent; wait for nothing else."""
        if self.cycle is None or self.cycle.response_complete or self._awaited in ("headers", "body"):
            self.drop()
        else:
            self.cycle.keep_alive = False

    def _await(self, what: str) -> None:
        self._awaited = what
        self._since = self.loop.time()
        self.crowd.wait_for(self)

    def _refuse(self, status: int, reason: str) -> None:
        """Answer without the application, and close the connection."""
        self._leave_application()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        body = json.dumps({"detail": reason}).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        if status == 503:
            headers.append(("retry-after", str(_RETRY_S)))
        head = h11.Response(status_code=status, headers=headers, reason=STATUS_PHRASES.get(status, b""))
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self._part()

    def _part(self) -> None:
        """Close the connection once the client has had a chance to read the answer.

        Closing it with unread data would make the kernel discard the answer.
        """
        self._parting = True
        self._unset_keepalive_if_required()
        self._await("parting")
        self.flow.resume_reading()
        try:
            self.transport.write_eof()
        except OSError:
            self.transport.abort()  # The client is already gone.

    def _leave_application(self) -> None:
        self.presence.gone = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()


class _Parser(h11.Connection):
    """h11 with our servers' additional limits."""

    def __init__(self, limits: ConnectionLimits) -> None:
        super().__init__(h11.SERVER, limits.header_bytes)
        self._limits = limits
        self.announced_close = False
        """Whether an answer has told the client, before its body was complete, that the connection closes."""

    def send(self, event: Any) -> bytes | None:  # type: ignore[override]
        """Serialise an event; an answer that does not wait for the body says that the connection closes.

        Otherwise the client would send its next request on it. The header is added here because h11 would make uvicorn
        close a connection that it knows to close at once, and the kernel would discard the answer.
        """
        early = isinstance(event, h11.Response) and self.their_state is h11.SEND_BODY
        data = super().send(event)
        if not early or data is None or _CLOSES in data.lower():
            return data
        self.announced_close = True
        return data.removesuffix(b"\r\n") + _CLOSES[2:] + b"\r\n"

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._check(event)
        return event

    def _check(self, request: h11.Request) -> None:
        if request.http_version not in (b"1.0", b"1.1"):
            raise h11.RemoteProtocolError("only HTTP/1.0 and HTTP/1.1 are supported", error_status_hint=505)
        if len(request.headers) > self._limits.headers:
            raise h11.RemoteProtocolError(f"more than {self._limits.headers} headers", error_status_hint=431)
        for name, value in request.headers:
            # A chunked body can have millions of chunks, each of which costs as much as a whole body of known length.
            if name == b"transfer-encoding":
                raise h11.RemoteProtocolError("set Content-Length; chunked bodies are not accepted", 411)
            if name == b"content-length" and int(value) > self._limits.body_bytes:
                reason = f"the body is larger than {self._limits.body_bytes} bytes"
                raise h11.RemoteProtocolError(reason, error_status_hint=413)


def guarded(limits: ConnectionLimits) -> type[GuardedConnection]:
    """Return the connection class for one server."""
    return type("GuardedConnection", (GuardedConnection,), {"crowd": Crowd(limits)})
