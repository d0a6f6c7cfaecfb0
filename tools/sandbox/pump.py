"""A stand-in for an agent: a thread that answers request frames, behind a socket that looks like a real agent's."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from agentgym.errors import AgentGymError
from agentgym.tools.sandbox.agent import wire


class SandboxGone(Exception):
    """What answers has ended for good; the other side finds its socket closed."""


class Pump:
    """Takes requests from `endpoint` and gives back what `answer` makes of them, one after another."""

    def __init__(self, answer: Callable[[bytes], bytes], name: str, *, first: bytes = b"") -> None:
        """Start to answer.

        Args:
            answer: Gives the answer to a request; both are whole frames.
            name: Of the thread.
            first: Sent at once, before any request.
        """
        self.endpoint, self._inner = socket.socketpair()
        self._inner.sendall(first)
        self._answer = answer
        threading.Thread(target=self._run, name=f"agentgym-{name}", daemon=True).start()

    def close(self) -> None:
        """Stop as soon as the answer in work, if any, is there."""
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
                    self._inner.sendall(self._answered(frame))
                except (OSError, EOFError, SandboxGone, wire.BadFrame):
                    return

    def _answered(self, frame: bytes) -> bytes:
        try:
            return self._answer(frame)
        except AgentGymError as error:
            return wire.encode({"error": "internal", "message": str(error)})


def hello() -> bytes:
    """Return what an agent says first."""
    return wire.encode({"hello": "", "pid": 0, "notes": ""})


def read_frame(source: socket.socket) -> bytes | None:
    """Return the next frame as it is, or nothing if there is no more.

    Raises:
        EOFError: If the source ends within a frame.
        wire.BadFrame: If what comes is no frame.
    """
    parts: list[bytes] = []
    decoder = wire.decoder()
    wanted = next(decoder)
    while True:
        piece = _exactly(source, wanted)
        if not piece and not parts:
            return None
        if len(piece) < wanted:
            raise EOFError("the connection ended within a frame")
        parts.append(piece)
        try:
            wanted = decoder.send(piece)
        except StopIteration:
            return b"".join(parts)


def decode(frame: bytes) -> wire.Frame:
    """Return the header and the blobs of a whole frame."""
    decoder = wire.decoder()
    wanted = next(decoder)
    at = 0
    while True:
        piece = frame[at : at + wanted]
        at += len(piece)
        if len(piece) < wanted:
            raise wire.BadFrame("the frame is cut short")
        try:
            wanted = decoder.send(piece)
        except StopIteration as done:
            return done.value


def _exactly(source: socket.socket, size: int) -> bytes:
    """Return so many bytes, or fewer at the end."""
    data = bytearray()
    while len(data) < size:
        piece = source.recv(min(size - len(data), 1 << 20))
        if not piece:
            break
        data += piece
    return bytes(data)
