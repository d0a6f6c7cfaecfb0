"""Connections of our servers: none can be held for ever, and none keeps honest clients out."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

httpx = pytest.importorskip("httpx", reason="needs the [serve] extra")
pytest.importorskip("uvicorn", reason="needs the [serve] extra")

from starlette.applications import Starlette  # noqa: E402
from starlette.requests import Request  # noqa: E402
from starlette.responses import Response  # noqa: E402
from starlette.routing import Route  # noqa: E402

from agentgym.tools.serving.answers import HANDLERS, BytesInPieces  # noqa: E402
from agentgym.tools.serving.bodies import read_body  # noqa: E402
from agentgym.tools.serving.presence import presence_of  # noqa: E402
from tests.serving_cases import HANG_S, Running, all_of, raw, running, until  # noqa: E402

MANY_BYTES = 32 << 20
POST = b"POST /echo HTTP/1.1\r\nhost: x\r\n"


class App:
    """Echoes, gives large answers, and answers some requests only when it is told to."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.at_work: list[Any] = []
        self.asgi = Starlette(
            routes=[
                Route("/", self.home),
                Route("/echo", self.echo, methods=["POST"]),
                Route("/large", self.large),
                Route("/wait", self.wait, methods=["GET", "POST"]),
                Route("/refuse", self.home, methods=["POST"]),
            ],
            exception_handlers=HANDLERS,
        )

    async def home(self, _: Request) -> Response:
        return Response(b"fine")

    async def echo(self, request: Request) -> Response:
        return Response(await read_body(request, 1 << 20))

    async def large(self, _: Request) -> Response:
        return BytesInPieces(b"x" * MANY_BYTES)

    async def wait(self, request: Request) -> Response:
        import anyio.to_thread

        await read_body(request, 1 << 20)
        self.at_work.append(presence_of(request))
        await anyio.to_thread.run_sync(self.go_on.wait, HANG_S)
        return Response(b"waited")


@pytest.fixture
def app() -> Iterator[App]:
    made = App()
    yield made
    made.go_on.set()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def reason_of(answer: bytes) -> str:
    """Return the reason that a refusal gives, which is one line of JSON."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head
    reason = json.loads(body)["detail"]
    assert "\n" not in reason
    return reason


HALF_OPEN = [
    b"",
    b"G",
    b"GET / HTTP/1.1\r\nhost: x\r\n",
    POST + b"content-length: 1000\r\n\r\n0123",
    b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
]


def test_half_open_connections_keep_nobody_out(app: App):
    with running(app.asgi, connections=20) as server, ExitStack() as held:
        for number in range(100):
            held.enter_context(raw(server.port, HALF_OPEN[number % len(HALF_OPEN)]))
        for _ in range(10):
            assert httpx.get(server.url, trust_env=False, timeout=HANG_S).text == "fine"
        assert len(server.crowd) <= 20


def test_those_at_work_are_never_dropped_for_others(app: App):
    with running(app.asgi, connections=4) as server, ThreadPoolExecutor(4) as threads:
        waiting = [threads.submit(httpx.get, server.url + "/wait", trust_env=False, timeout=HANG_S) for _ in range(4)]
        until(lambda: len(app.at_work) == 4)
        with raw(server.port) as connection:
            refused = all_of(connection)
        assert status_of(refused) == 503
        assert b"retry-after: 1" in refused
        assert "connections" in reason_of(refused)
        app.go_on.set()
        assert [each.result().text for each in waiting] == ["waited"] * 4


def test_the_address_with_the_most_connections_gives_way_first():
    from agentgym.tools.serving.crowd import Crowd
    from agentgym.tools.serving.limits import ConnectionLimits

    class Member:
        held_bytes = 0

        def __init__(self, peer: str) -> None:
            self.peer, self.dropped = peer, False

        def is_overdue(self, now: float) -> bool:
            return False

        def time_out(self) -> None: ...

        def drop(self) -> None:
            self.dropped = True

    async def play() -> None:
        crowd = Crowd(ConnectionLimits(connections=4))
        quiet, first, second, third, new = (Member(peer) for peer in "abbbc")
        assert all(crowd.join(each) for each in (quiet, first, second, third))
        assert crowd.join(new)
        assert [each.dropped for each in (quiet, first, second, third)] == [False, True, False, False]

    import asyncio

    asyncio.run(play())


@pytest.mark.parametrize(
    ("sent", "what"),
    [(b"GET / HTTP/1.1\r\nhost:", "headers"), (POST + b"content-length: 9\r\n\r\n0123", "body")],
)
def test_a_request_that_never_ends_is_timed_out(app: App, sent: bytes, what: str):
    with running(app.asgi, header_s=0.2, body_s=0.2) as server, raw(server.port, sent) as connection:
        answer = all_of(connection)
        assert status_of(answer) == 408
        assert what in reason_of(answer)


def test_sending_bit_by_bit_gains_no_time(app: App):
    with running(app.asgi, header_s=0.5) as server, raw(server.port, b"GET / HTTP/1.1\r\n") as connection:
        answer = dripping(connection, b"a: b\r\n")
        assert status_of(answer) == 408


def dripping(connection: socket.socket, drop: bytes) -> bytes:
    """Send something again and again, until an answer comes."""
    connection.settimeout(0.02)
    while True:
        connection.sendall(drop)
        try:
            return connection.recv(1 << 16)
        except TimeoutError:
            continue


def test_a_connection_that_says_nothing_is_closed_without_a_word(app: App):
    with running(app.asgi, header_s=0.2) as server, raw(server.port) as connection:
        assert all_of(connection) == b""
        until(lambda: len(server.crowd) == 0)


def test_whoever_does_not_read_the_answer_is_dropped(app: App):
    with running(app.asgi, body_s=0.2, bytes_per_s=1 << 30) as server:
        with raw(server.port, b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n") as connection:
            until(lambda: len(server.crowd) == 1)
            until(lambda: len(server.crowd) == 0)
            assert len(all_of(connection)) < MANY_BYTES
        assert server.crowd.held_bytes == 0


def test_a_slow_reader_gets_all_of_the_answer(app: App):
    with running(app.asgi, body_s=HANG_S) as server, server.client.stream("GET", "/large") as answer:
        assert sum(len(piece) for piece in answer.iter_raw(1 << 16)) == MANY_BYTES


def test_unfinished_bodies_of_all_clients_together_are_bounded(app: App):
    head = b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 50001\r\n\r\n"
    with running(app.asgi, held_bytes=200_000) as server, ExitStack() as held:
        for _ in range(40):
            held.enter_context(raw(server.port, head + b"x" * 50_000))
        assert server.client.post("/echo", content=b"y" * 50_001).content == b"y" * 50_001
        assert server.crowd.held_bytes <= 200_000


def test_a_client_that_leaves_is_known_to_have_left(app: App):
    with running(app.asgi) as server:
        with raw(server.port, b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n"):
            until(lambda: app.at_work)
            assert not app.at_work[0].gone
        until(lambda: app.at_work[0].gone)


def test_a_client_that_sends_ahead_is_known_to_have_left_too(app: App):
    once = b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n"
    with running(app.asgi) as server:
        with raw(server.port, once * 3) as connection:
            until(lambda: app.at_work)
            connection.sendall(once * 1000)
        until(lambda: app.at_work[0].gone)
        assert len(app.at_work) == 1


def test_of_requests_sent_ahead_the_first_is_answered_and_no_other(app: App):
    with running(app.asgi) as server:
        for count in (2, 500):
            with raw(server.port, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * count) as connection:
                answers = all_of(connection)
            assert answers.count(b"HTTP/1.1 200") == 1


def test_a_body_that_is_refused_unread_is_not_taken_in_for_ever(app: App):
    with running(app.asgi, body_bytes=1 << 40) as server:
        sent = b"POST /refuse HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000000\r\n\r\n"
        with raw(server.port, sent) as connection:
            assert status_of(connection.recv(1 << 16)) == 200
            with pytest.raises(OSError, match=r"Broken pipe|reset"):
                endlessly(connection)


@pytest.mark.parametrize("rest", [b"0123", b""])
def test_an_answer_that_does_not_wait_for_the_body_says_that_the_connection_closes(app: App, rest: bytes):
    sent = b"POST /refuse HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n"
    with running(app.asgi) as server, raw(server.port, sent + rest) as connection:
        head, _, body = all_of(connection).partition(b"\r\n\r\n")
        assert status_of(head) == 200
        assert b"\r\nconnection: close" in head
        assert body == b"fine"


def test_a_client_goes_on_after_an_answer_that_did_not_wait_for_the_body(app: App):
    with running(app.asgi) as server:
        for _ in range(20):
            assert server.client.post("/refuse", content=b"x" * 500_000).text == "fine"
            assert server.client.get("/").text == "fine"


def endlessly(connection: socket.socket) -> None:
    ends = time.monotonic() + HANG_S
    while time.monotonic() < ends:
        connection.sendall(b"x" * (1 << 16))


MALFORMED = {
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    "noise": (bytes(range(256)) * 4 + b"\r\n\r\n", 400),
    "HTTP/0.9": (b"GET /\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "a space in a name": (b"GET / HTTP/1.1\r\nhost : x\r\n\r\n", 400),
    "NUL in a value": (b"GET / HTTP/1.1\r\nhost: x\r\na: \0\r\n\r\n", 400),
    "a bad path": (b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "a negative length": (POST + b"content-length: -1\r\n\r\n", 400),
    "a length in words": (POST + b"content-length: ten\r\n\r\n", 400),
    "two lengths": (POST + b"content-length: 1\r\ncontent-length: 2\r\n\r\n", 400),
    "a huge length": (POST + b"content-length: " + b"9" * 18 + b"\r\n\r\n", 413),
    "a length beyond numbers": (POST + b"content-length: " + b"9" * 5000 + b"\r\n\r\n", 400),
    "chunks": (POST + b"transfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 10_000, 411),
    "chunks and a length": (POST + b"transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n", 411),
    "an unknown coding": (POST + b"transfer-encoding: gzip\r\n\r\n", 501),
    "many headers": (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 200 + b"\r\n", 431),
    "headers in one piece": (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 100_000 + b"\r\n", 431),
    "one large header": (b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"b" * 60_000 + b"\r\n\r\n", 431),
    "a header without an end": (b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"b" * 300_000, 431),
    "a path without an end": (b"GET /" + b"a" * 300_000, 431),
}


@pytest.fixture(scope="module")
def common() -> Iterator[Running]:
    with running(App().asgi) as server:
        yield server


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_request_is_refused_in_one_line(common: Running, name: str, caplog: pytest.LogCaptureFixture):
    sent, status = MALFORMED[name]
    with raw(common.port) as connection, ThreadPoolExecutor(1) as thread:
        # What comes after a refusal may not be taken in any more.
        sending = thread.submit(connection.sendall, sent)
        answer = all_of(connection)
        assert isinstance(sending.exception(HANG_S), OSError | None)
    assert status_of(answer) == status
    assert reason_of(answer)
    assert common.client.get("/").text == "fine"
    assert not [each for each in caplog.records if each.exc_info]


ODD = {
    "an absolute address": (b"GET http://x/ HTTP/1.1\r\nhost: x\r\n\r\n", 404),
    "CONNECT": (b"CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n", 404),
    "an upgrade": (b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n", 200),
    "an unknown method": (b"BREW / HTTP/1.1\r\nhost: x\r\n\r\n", 405),
    "a strange host": (b"GET / HTTP/1.1\r\nhost: [::1\r\n\r\n", 200),
    "nothing after HTTP/1.0": (b"GET / HTTP/1.0\r\n\r\n", 200),
    "a body nobody wants": (b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nbody", 200),
    "an expectation": (POST + b"expect: 100-continue\r\ncontent-length: 2\r\n\r\nhi", 200),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_requests_are_answered(common: Running, name: str, caplog: pytest.LogCaptureFixture):
    sent, status = ODD[name]
    with raw(common.port, sent.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1)) as connection:
        answer = all_of(connection)
    final = answer[answer.rindex(b"HTTP/1.1 ") :]
    assert status_of(final) == status
    assert not [each for each in caplog.records if each.exc_info]


_FEW_FILES = """
import resource, sys
from starlette.responses import Response
from agentgym.tools.listening import listen, run_server, url_of
from agentgym.tools import listening as module
from agentgym.tools.serving.limits import ConnectionLimits

if sys.argv[2] == "too many":
    module._OTHER_FILES = 0
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[1])))

class App:
    class state: pass
    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            await Response(b"fine")(scope, receive, send)

listening = listen("127.0.0.1", 0)
print(url_of(listening), flush=True)
run_server(App(), listening, ConnectionLimits(header_s=1))
"""


@pytest.mark.real
@pytest.mark.parametrize(("files", "connections"), [(300, "as many as fit"), (48, "too many")])
def test_a_server_with_few_files_goes_on_when_all_are_taken(files: int, connections: str):
    command = [sys.executable, "-c", _FEW_FILES, str(files), connections]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        url = process.stdout.readline().strip()
        try:
            with ExitStack() as held:
                for _ in range(60):
                    held.enter_context(raw(int(url.rpartition(":")[2]), b"GET /"))
                assert httpx.get(url, trust_env=False, timeout=HANG_S).text == "fine"
        finally:
            process.terminate()
        assert process.wait(HANG_S) == 0


def test_a_request_that_outlives_its_server_is_answered_and_no_failure(app: App, caplog: pytest.LogCaptureFixture):
    with running(app.asgi) as server, raw(server.port, b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n") as connection:
        until(lambda: app.at_work)
        server.stop()
        answer = all_of(connection)
    assert (status_of(answer), reason_of(answer)) == (503, "the server is stopping")
    assert "Traceback" not in caplog.text
