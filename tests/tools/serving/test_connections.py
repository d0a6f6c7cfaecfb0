"""Connections of our servers: none can be held for ever, and none keeps honest clients out."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

httpx = pytest.importorskip("httpx", reason="needs the [serve] extra")
pytest.importorskip("uvicorn", reason="needs the [serve] extra")

from starlette.applications import Starlette  # noqa: E402
from starlette.requests import Request  # noqa: E402
from starlette.responses import Response  # noqa: E402
from starlette.routing import Route  # noqa: E402

from agentgym.core.engine.threads import blocking  # noqa: E402
from agentgym.interop.bodies import while_connected  # noqa: E402
from agentgym.tools.serving import running as module  # noqa: E402
from agentgym.tools.serving.answers import (  # noqa: E402
    HANDLERS,
    in_pieces,
    read_body,
)
from tests.rows import each_row  # noqa: E402
from tests.serving_cases import HANG_S, all_of, raw, running, until  # noqa: E402

pytestmark = pytest.mark.real


MANY_BYTES = 32 << 20
GET = b"GET / HTTP/1.1\r\nhost: x\r\n"
POST = b"POST /echo HTTP/1.1\r\nhost: x\r\n"


class App:
    """Echoes, gives large answers, and answers `/wait` only after `go_on`."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.waiting = self.left = self.large_answers = 0
        self.asgi = Starlette(
            routes=[
                Route("/", self.home),
                Route("/echo", self.echo, methods=["POST"]),
                Route("/large", self.large),
                Route("/wait", self.wait),
            ],
            exception_handlers=HANDLERS,
        )

    async def home(self, _: Request) -> Response:
        return Response(b"fine")

    async def echo(self, request: Request) -> Response:
        return Response(await read_body(request, 1 << 20))

    async def large(self, _: Request) -> Response:
        self.large_answers += 1
        return in_pieces(b"x" * MANY_BYTES, "text/plain")

    async def wait(self, request: Request) -> Response:
        return await while_connected(request, self._wait())

    async def _wait(self) -> Response:
        self.waiting += 1
        try:
            await blocking.run(lambda: self.go_on.wait(HANG_S))
        except asyncio.CancelledError:
            self.left += 1
            raise
        return Response(b"waited")


@pytest.fixture
def app() -> Iterator[App]:
    application = App()
    yield application
    application.go_on.set()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let servers wait for hardly a moment."""
    monkeypatch.setattr(module, "PATIENCE_S", 0.1)
    monkeypatch.setattr(module, "_BYTES_PER_S", 1 << 30)


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def reason_of(answer: bytes) -> str:
    """Return the reason that a refusal gives, which is one line of JSON."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head
    reason = json.loads(body)["detail"]
    assert "\n" not in reason
    return reason


HALF_OPEN = [b"", b"G", GET, POST + b"content-length: 1000\r\n\r\n0123", GET + b"\r\n"]


def test_half_open_connections_keep_nobody_out(app: App, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_WAITING", 20)
    with running(app.asgi) as server, ExitStack() as held:
        for number in range(100):
            held.enter_context(raw(server.port, HALF_OPEN[number % len(HALF_OPEN)]))
        for _ in range(10):
            assert httpx.get(server.url, trust_env=False, timeout=HANG_S).text == "fine"
            assert server.connections <= 40, "room is made at once, before all open files are taken"
        until(lambda: server.connections <= 20)


def test_running_requests_are_never_dropped_for_others(app: App, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_WAITING", 4)
    with running(app.asgi) as server, ThreadPoolExecutor(4) as threads, ExitStack() as held:
        waiting = [threads.submit(httpx.get, server.url + "/wait", trust_env=False, timeout=HANG_S) for _ in range(4)]
        until(lambda: app.waiting == 4)
        others = [held.enter_context(raw(server.port)) for _ in range(9)]
        assert all_of(others[0]) == b""  # those waited for longest are dropped
        app.go_on.set()
        assert [call.result().text for call in waiting] == ["waited"] * 4


def test_requests_beyond_the_limit_get_retry_after(app: App, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_REQUESTS", 2)
    with running(app.asgi) as server, ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(httpx.get, server.url + "/wait", trust_env=False, timeout=HANG_S) for _ in range(2)]
        until(lambda: app.waiting == 2)
        refused = server.client.get("/")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        app.go_on.set()
        assert [call.result().text for call in waiting] == ["waited"] * 2
        assert server.client.get("/").text == "fine"


@pytest.mark.usefixtures("hasty")
def test_a_client_that_does_not_read_the_answer_is_dropped(app: App):
    with running(app.asgi) as server, raw(server.port, b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n") as connection:
        until(lambda: app.large_answers)
        until(lambda: server.connections == 0)
        assert len(all_of(connection)) < MANY_BYTES


def test_unfinished_bodies_of_all_clients_together_are_bounded(app: App):
    head = POST + b"content-length: 50001\r\n\r\n"
    with running(app.asgi, held_bytes=200_000) as server, ExitStack() as held:
        for _ in range(40):
            held.enter_context(raw(server.port, head + b"x" * 50_000))
        assert server.client.post("/echo", content=b"y" * 50_001).content == b"y" * 50_001
        until(lambda: server.connections <= 5)


def test_work_for_a_client_that_left_is_cancelled(app: App):
    with running(app.asgi) as server:
        with raw(server.port, b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n"):
            until(lambda: app.waiting == 1)
        until(lambda: app.left == 1)


@each_row("header, status", [(b"content-length: 999999999999999999", 413), (b"transfer-encoding: chunked", 411)])
def test_a_body_that_is_too_large_or_of_unknown_size_is_refused_unread(app: App, header: bytes, status: int):
    with running(app.asgi) as server, raw(server.port, POST + header + b"\r\nconnection: close\r\n\r\n") as connection:
        answer = all_of(connection)
    assert status_of(answer) == status
    assert reason_of(answer)


MALFORMED = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "NUL in a value": GET + b"a: \0\r\n\r\n",
    "two lengths": POST + b"content-length: 1\r\ncontent-length: 2\r\n\r\n",
    "a length beyond numbers": POST + b"content-length: " + b"9" * 5000 + b"\r\n\r\n",
    "a header without an end": GET + b"a: " + b"b" * 300_000,
}


def test_a_malformed_request_is_refused_without_side_effects(app: App, caplog: pytest.LogCaptureFixture):
    with running(app.asgi) as server:
        for name, request in MALFORMED.items():
            with raw(server.port) as connection, ThreadPoolExecutor(1) as thread:
                # The server may stop reading after a refusal.
                sending = thread.submit(connection.sendall, request)
                answer = all_of(connection)
                assert isinstance(sending.exception(HANG_S), OSError | None)
            assert answer[9:12] in (b"400", b""), name  # the answer is lost if more was sent
            assert server.client.get("/").text == "fine"
    assert not [record for record in caplog.records if record.exc_info]


def test_a_request_that_outlives_its_server_is_answered_and_no_failure(app: App, caplog: pytest.LogCaptureFixture):
    with running(app.asgi) as server, raw(server.port, b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n") as connection:
        until(lambda: app.waiting)
        server.stop()
        answer = all_of(connection)
    assert (status_of(answer), reason_of(answer)) == (503, "the server is stopping")
    assert "Traceback" not in caplog.text
