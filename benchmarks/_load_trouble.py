"""The troublemakers of `serve_load`: clients with and without the token that misbehave.

Started like `_load_players`: reads an order from the first line of its input, prints `ready`, and at the end the
server's answers.
"""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import count
from urllib.parse import urlsplit

from websockets.frames import Frame, Opcode

from agentgym.interop.served.wire import STREAM, encoded
from benchmarks._load_players import Order

MESSAGE_BYTES = 8 << 20
"""The largest request that the server accepts."""
PATIENCE_S = 10.0
SLOW = 30
"""Number of connections that send single bytes slowly."""
KILLED_CLIENTS = 5
UNREAD = 5_000
"""Number of unread replies: more than the kernel buffers."""

BAD_BODIES = (b"", b"{", b"[]", b"\xff\xfe", b'{"env": 5}', b'{"arguments": []}', b"[" * 5_000, b'{"env": "sql"}')
BAD_BYTES = (b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"POST /sessions HTTP/9.9\r\n\r\n", b"\x00" * 40_000)
BAD_MESSAGES = ("", "{", "[]", "5", "[" * 5_000, "\x00", '{"op": 1}', '{"op": "step", "session": "nobody"}')
BAD_FRAMES = (
    b"\x81\x02{}",  # not masked
    b"\xf1\x80\x00\x00\x00\x00",  # reserved bits
    b"\x83\x80\x00\x00\x00\x00",  # no such opcode
    b"\x80\x80\x00\x00\x00\x00",  # a continuation of nothing
    b"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00",  # nine exabytes are coming
)


class Trouble:
    """Connections to a server, and counts of its answers.

    Args:
        order: The server.
    """

    def __init__(self, order: Order):
        place = urlsplit(order.url)
        self.order = order
        self.stop = threading.Event()
        self.started = threading.Semaphore(0)
        """Released by each kind of trouble once all its variants have run."""
        self._answers: Counter[str] = Counter()
        self._address = (place.hostname or "", place.port or 80)
        self._lock = threading.Lock()

    def note(self, kind: str, answer: bytes) -> None:
        """Count an answer."""
        with self._lock:
            self._answers[f"{kind}: {meaning_of(answer)}"] += 1

    def answers(self) -> dict[str, int]:
        """Return the number of answers by kind of trouble and status, close code or kind of error."""
        with self._lock:
            return dict(self._answers)

    @contextmanager
    def connected(self) -> Iterator[socket.socket]:
        """Open a connection."""
        with socket.create_connection(self._address, timeout=PATIENCE_S) as connection:
            yield connection

    def head(self, line: str, size: int, token: str | None = None) -> bytes:
        """Return the headers of a request with a body."""
        more = "connection: close", "content-type: application/json", f"content-length: {size}"
        return "\r\n".join([*self._first(line, token), *more, "", ""]).encode()

    def _first(self, line: str, token: str | None) -> tuple[str, ...]:
        return f"{line} HTTP/1.1", "host: x", f"authorization: Bearer {token or self.order.token}"

    def posted(self, path: str, body: bytes) -> bytes:
        """Send a request over HTTP, and return the answer."""
        with self.connected() as connection:
            connection.sendall(self.head(f"POST {path}", len(body)) + body)
            return all_of(connection)

    def session(self) -> str:
        """Return a new session, or an unknown one if the server is full."""
        answer = self.posted("/sessions", b"{}").partition(b"\r\n\r\n")[2]
        return json.loads(answer or b"{}").get("session", "none")

    @contextmanager
    def stream(self, token: str | None = None) -> Iterator[socket.socket]:
        """Open a connection, request a WebSocket, and read the first answer."""
        more = "connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13"
        lines = [*self._first(f"GET {STREAM}", token), *more, "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==", "", ""]
        with self.connected() as connection:
            connection.sendall("\r\n".join(lines).encode())
            came = b""
            while b"\r\n\r\n" not in came and (data := connection.recv(1)):
                came += data
            if b" 101 " not in came and token is None:
                raise ConnectionError(f"no WebSocket: {came[:40]!r}")
            if token is not None:
                self.note("intruder", came)
            yield connection


def meaning_of(answer: bytes) -> str:
    """Return the status of an HTTP answer, the code of a closed WebSocket, or the kind of error in a message."""
    if answer.startswith(b"HTTP/1.1 "):
        return answer[9:12].decode()
    if answer[:1] == b"\x88" and len(answer) >= 4:
        return str(struct.unpack("!H", answer[2:4])[0])
    if b'"kind": "' in answer:
        return answer.partition(b'"kind": "')[2].partition(b'"')[0].decode()
    return "message" if answer else "closed"


def all_of(connection: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    came = bytearray()
    with suppress(ConnectionError):
        while data := connection.recv(1 << 16):
            came += data
    return bytes(came)


def frame(text: bytes, *, is_last: bool = True, opcode: Opcode = Opcode.TEXT) -> bytes:
    return Frame(opcode, text, fin=is_last).serialize(mask=True)


def step(session: str, action: str = "Is it five?") -> bytes:
    return frame(encoded({"id": 1, "op": "step", "session": session, "action": action}))


def reset(connection: socket.socket, session: str) -> None:
    connection.sendall(frame(encoded({"id": 0, "op": "reset", "session": session, "seed": 1})))
    connection.recv(1 << 16)


def break_off(connection: socket.socket) -> None:
    """Make closing the connection send a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def vanish(trouble: Trouble, number: int) -> None:
    """Disconnect in the middle of a body, a message, or the reply."""
    if number % 3 == 0:
        with trouble.connected() as connection:
            connection.sendall(trouble.head("POST /sessions", 50) + b'{"env": ')
            break_off(connection)
    else:
        session = trouble.session()
        with trouble.stream() as connection:
            reset(connection, session)
            sent = step(session)
            connection.sendall(sent[: len(sent) // 2] if number % 3 == 1 else sent)
            break_off(connection)
    trouble.note("vanished", b"")


def be_killed(trouble: Trouble, _: int) -> None:
    """Kill a process of clients that play."""
    command = [sys.executable, "-m", "benchmarks._load_players"]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing, text=True)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({**asdict(trouble.order), "sessions": KILLED_CLIENTS}) + "\n")
        process.stdin.flush()
        if process.stdout.readline():
            trouble.stop.wait(0.2)
            trouble.note("killed", b"")
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def malformed(trouble: Trouble, number: int) -> None:
    """Send malformed HTTP, JSON, requests or frames."""
    kinds: Sequence[Sequence[bytes | str]] = (BAD_BODIES, BAD_BYTES, BAD_MESSAGES, BAD_FRAMES)
    bad = kinds[number % 4]
    sent = bad[number // 4 % len(bad)]
    if bad is BAD_BODIES:
        assert isinstance(sent, bytes)
        trouble.note("malformed body", trouble.posted("/sessions", sent))
    elif bad is BAD_BYTES:
        with trouble.connected() as connection:
            connection.sendall(sent)  # type: ignore[arg-type]
            connection.shutdown(socket.SHUT_WR)
            trouble.note("malformed bytes", all_of(connection))
    else:
        with trouble.stream() as connection:
            connection.sendall(sent if isinstance(sent, bytes) else frame(sent.encode()))
            trouble.note("malformed frame", connection.recv(1 << 12))


def oversized(trouble: Trouble, number: int) -> None:
    """Exceed the size limit with a body, a message or fragments, or send a useless message of maximum size."""
    large = bytes(MESSAGE_BYTES)
    kind = number % 4
    if kind == 0:
        with trouble.connected() as connection:
            connection.sendall(trouble.head("POST /sessions", 10 * MESSAGE_BYTES))
            trouble.note("oversized body", all_of(connection))
        return
    sent = {
        1: frame(large + b"x"),
        2: frame(large[1:], is_last=False) + frame(large[1:], opcode=Opcode.CONT),
        3: frame(large[1:]),
    }[kind]
    with trouble.stream() as connection:
        with suppress(ConnectionError):
            connection.sendall(sent)
        trouble.note("largest message" if kind == 3 else "oversized message", connection.recv(1 << 12))


def intrude(trouble: Trouble, number: int) -> None:
    """Use a wrong token."""
    wrong = trouble.order.token[:-1] if number % 2 else "x" * 5_000
    if number % 4 < 2:
        with trouble.stream(wrong):
            pass
    else:
        with trouble.connected() as connection:
            connection.sendall(trouble.head("POST /sessions", 2, wrong) + b"{}")
            trouble.note("intruder", all_of(connection))


def abandon(trouble: Trouble, _: int) -> None:
    """Open a session, start an episode, and abandon it."""
    session = trouble.session()
    trouble.note("abandoned", trouble.posted(f"/sessions/{session}/reset", b'{"seed": 1}'))


def never_read(trouble: Trouble, _: int) -> None:
    """Send many requests without reading the replies."""
    session = trouble.session()
    with trouble.stream() as connection:
        connection.settimeout(1.0)
        with suppress(OSError):
            connection.sendall(UNREAD * frame(encoded({"id": 0, "op": "reset", "session": session, "seed": 1})))
        trouble.stop.wait(1.0)
        break_off(connection)
    trouble.note("unread", b"")


def dawdle(trouble: Trouble, number: int) -> None:
    """Send headers, a body or a message byte by byte until the server closes the connection."""
    start = (b"POST /sess", trouble.head("POST /sessions", 100_000), b"")[number % 3]
    connecting = trouble.connected() if start else trouble.stream()
    with connecting as connection:
        connection.sendall(start or frame(bytes(100_000))[:10])
        connection.settimeout(0.5)
        while not trouble.stop.is_set():
            try:
                connection.sendall(b" ")
                answer = connection.recv(1 << 12)
            except TimeoutError:
                continue
            except ConnectionError:
                answer = b""
            trouble.note("slow", answer)
            return


@dataclass(frozen=True)
class Kind:
    """A kind of trouble.

    Args:
        make: Causes the trouble once; the number selects the variant.
        ways: Number of variants. They run once without pauses before the load counts as started.
        pause_s: Seconds between them after that.
        clients: Number of concurrent troublemakers.
    """

    make: Callable[[Trouble, int], None]
    ways: int
    pause_s: float
    clients: int = 1


KINDS = (
    Kind(vanish, 3, 0.7),
    Kind(be_killed, 1, 10.0),
    Kind(malformed, 4, 0.05, 2),
    Kind(oversized, 4, 0.5),
    Kind(intrude, 4, 0.1, 2),
    Kind(abandon, 1, 1.0),
    Kind(never_read, 1, 5.0),
    Kind(dawdle, 0, 0.5, SLOW),
)


def repeat(trouble: Trouble, kind: Kind, first: int) -> None:
    """Cause trouble until `trouble.stop` is set."""
    for number in count(first):
        try:
            kind.make(trouble, number)
        except OSError:
            trouble.note(kind.make.__name__, b"")
        if number + 1 == kind.ways:
            trouble.started.release()
        if trouble.stop.wait(0.0 if number < kind.ways else kind.pause_s):
            return


def main() -> None:
    trouble = Trouble(Order(**json.loads(sys.stdin.readline())))
    threads = [
        threading.Thread(target=repeat, args=(trouble, kind, max(kind.ways, 1) * number), daemon=True)
        for kind in KINDS
        for number in range(kind.clients)
    ]
    for thread in threads:
        thread.start()
    for kind in KINDS:
        if kind.ways:
            trouble.started.acquire()
    print("ready", flush=True)
    sys.stdin.read()
    trouble.stop.set()  # threads that wait for the server end with this process
    print(json.dumps(trouble.answers()), flush=True)


if __name__ == "__main__":
    main()
