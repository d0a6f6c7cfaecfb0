"""`Channel`: the text messages of a WebSocket over a blocking socket, for a client and for a server's thread.

`websockets` does the protocol. Its connections read in a thread or an event loop beside the one that waits for a
message, which takes as long as a short step; here the thread that waits also reads.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator

from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import SERVER, State
from websockets.protocol import Protocol as WebSocket

try:
    from websockets.speedups import apply_mask
except ImportError:  # a platform without the compiled part
    from websockets.utils import apply_mask

_WHOLE_TEXT, _MASKED, _TWO_BYTES = 0x80 | Opcode.TEXT, 0x80, 126
_DATA = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)


class Channel:
    """Messages in both directions. Use it in one thread at a time.

    Args:
        protocol: An open WebSocket that has read its handshake and nothing else.
        read: Returns the next bytes, none at the end. It is given how many bytes of an incomplete message are there.
        write: Sends bytes.
        most_bytes: Largest message that is taken. A larger one closes the WebSocket.
    """

    def __init__(
        self, protocol: WebSocket, read: Callable[[int], bytes], write: Callable[[bytes], object], most_bytes: int
    ):
        self._protocol, self._read, self._write, self._most_bytes = protocol, read, write, most_bytes
        self._is_server = protocol.side is SERVER
        self._buffer = bytearray()
        self._fragments: list[bytes] = []
        self._held = 0

    @property
    def has_more(self) -> bool:
        """Whether more than the last message has been read already."""
        return bool(self._buffer)

    def send(self, text: bytes) -> None:
        """Send a message, UTF-8. Raises `OSError` if it cannot be sent."""
        self._write(_head(len(text)) + text if self._is_server else Frame(Opcode.TEXT, text).serialize(mask=True))

    def receive(self) -> bytes | None:
        """Return the next message, or `None` if the WebSocket is closed. Raises `OSError` if the connection breaks."""
        while self._protocol.state is State.OPEN:
            if not self._fragments and (text := self._plain()) is not None:
                return text
            frame = self._frame()
            if frame is None:
                return None
            if frame.opcode is Opcode.TEXT and frame.fin and not self._fragments:
                return bytes(frame.data)
            if (message := self._unusual(frame)) is not None:
                return message
        return None

    def close(self, code: int) -> None:
        """Say that no message follows, and why. Raises `OSError` if it cannot be sent."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(code)
            self._flush()

    def _plain(self) -> bytes | None:
        """Return the text of the next frame if it is whole, short and has come at one go, as nearly all are.

        `Frame.parse` takes several times as long, which would be a good part of a short step.
        """
        if not self._buffer:
            self._buffer += self._read(0)
        buffer, at = self._buffer, 2
        if len(buffer) < 2 or buffer[0] != _WHOLE_TEXT or (buffer[1] >= _MASKED) is not self._is_server:
            return None
        size = buffer[1] & ~_MASKED
        if size == _TWO_BYTES:
            size, at = int.from_bytes(buffer[2:4]), 4
        elif size > _TWO_BYTES:
            return None
        start = at + 4 if self._is_server else at
        if len(buffer) != start + size or size > self._most_bytes:
            return None
        text = apply_mask(bytes(buffer[start:]), bytes(buffer[at:start])) if self._is_server else bytes(buffer[start:])
        buffer.clear()
        return text

    def _frame(self) -> Frame | None:
        """Return the next frame, `None` at the end or at a mistake, of which the other side is told."""
        try:
            next(Frame.parse(self._exactly, mask=self._is_server, max_size=self._most_bytes - self._held))
        except StopIteration as done:
            return done.value
        except EOFError:
            return None
        except PayloadTooBig:
            self._protocol.fail(CloseCode.MESSAGE_TOO_BIG)
        except ProtocolError as error:
            self._protocol.fail(CloseCode.PROTOCOL_ERROR, str(error))
        self._flush()
        return None

    def _exactly(self, size: int) -> Generator[None, None, bytes]:
        buffer = self._buffer
        while len(buffer) < size:
            data = self._read(len(buffer) + self._held)
            if not data:
                raise EOFError
            buffer += data
        data = bytes(buffer[:size])
        del buffer[:size]
        return data
        yield  # `Frame.parse` wants a generator; this one waits for the bytes instead

    def _unusual(self, frame: Frame) -> bytes | None:
        """Let the protocol see a ping, a part of a message or the end. Return the message that is complete now."""
        self._protocol.receive_data(frame.serialize(mask=self._is_server))
        self._flush()
        whole: bytes | None = None
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode in _DATA:
                self._fragments.append(bytes(event.data))
                if event.fin:
                    whole = b"".join(self._fragments)
                    self._fragments.clear()
                self._held = sum(map(len, self._fragments))
        return whole

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:  # nothing stands for the end, which is up to those who have the socket
                self._write(data)


def _head(size: int) -> bytes:
    """Return what precedes a text of this size in a frame of a server."""
    if size < _TWO_BYTES:
        return bytes((_WHOLE_TEXT, size))
    return struct.pack("!BBH" if size < 1 << 16 else "!BBQ", _WHOLE_TEXT, 126 if size < 1 << 16 else 127, size)


def timeval(seconds: float) -> bytes:
    """Return the C `struct timeval` of a socket's time limit."""
    whole = max(0.001, seconds)
    return struct.pack("ll", int(whole), int(whole % 1 * 1e6))
