"""A substitute for an agent: a thread that answers request frames behind a socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from agentgym.base.errors import AgentGymError
from agentgym.tools.sandbox.agent import wire


class SandboxGone(Exception):
    """The sandbox is gone for good; the driver sees its socket closed."""


class Pump:
    """Reads requests from `endpoint` and sends back the result of `answer`, one at a time."""

    def __init__(self, answer: Callable[[bytes], bytes], name: str, *, first: bytes = b"") -> None:
        """Start the thread.

        Args:
            answer: Returns the answer frame to a request frame.
            name: Suffix of the thread's name.
            first: Sent immediately, before any request.
        """
        self.endpoint, self._inner = socket.socketpair()
        self._inner.sendall(first)
        self._answer = answer
        threading.Thread(target=self._run, name=f"agentgym-{name}", daemon=True).start()

    def close(self) -> None:
        """Stop after the answer in progress, if any."""
        try:
            self._inner.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def _run(self) -> None:
        with self._inner:
            while True:
                try:
                    frame = read_frame(self._inner)
                    if frame is None:
                        return
                    self._inner.sendall(self._answer_or_error(frame))
                except (OSError, EOFError, SandboxGone, wire.BadFrame):
                    return

    def _answer_or_error(self, frame: bytes) -> bytes:
        try:
            return self._answer(frame)
        except AgentGymError as error:
            return wire.encode({"error": "internal", "message": str(error)})


def hello() -> bytes:
    """Return an agent's hello frame."""
    return wire.encode({"hello": "", "pid": 0, "notes": ""})


def read_frame(source: socket.socket) -> bytes | None:
    """Return the next raw frame, or `None` at the end.

    Raises:
        EOFError: If the source ends in the middle of a frame.
        wire.BadFrame: If the bytes are not a frame.
    """
    parts: list[bytes] = []
    decoder = wire.decoder()
    size = next(decoder)
    while True:
        piece = _exactly(source, size)
        if not piece and not parts:
            return None
        if len(piece) < size:
            raise EOFError("the connection ended in the middle of a frame")
        parts.append(piece)
        try:
            size = decoder.send(piece)
        except StopIteration:
            return b"".join(parts)


def decode(frame: bytes) -> wire.Frame:
    """Return the header and the blobs of a complete frame."""
    decoder = wire.decoder()
    size = next(decoder)
    at = 0
    while True:
        piece = frame[at : at + size]
        at += len(piece)
        if len(piece) < size:
            raise wire.BadFrame("the frame is truncated")
        try:
            size = decoder.send(piece)
        except StopIteration as done:
            return done.value


def _exactly(source: socket.socket, size: int) -> bytes:
    """Return `size` bytes, or fewer at the end."""
    data = bytearray()
    while len(data) < size:
        piece = source.recv(min(size - len(data), 1 << 20))
        if not piece:
            break
        data += piece
    return bytes(data)
