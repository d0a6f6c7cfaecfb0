"""The server side of remote sandboxes: tokens, bounds on requests, and no sandbox without a client."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from agentgym.base.errors import InfrastructureError
from agentgym.tools.sandbox.agent import wire
from agentgym.tools.sandbox.backend import Threat, not_held
from agentgym.tools.sandbox.leases import Leases, ServerFull, TooManyForClient
from agentgym.tools.sandbox.serve import SandboxOffer, Serving, make_app
from agentgym.tools.sandbox.spec import SandboxLimits, SandboxSpec, SandboxTier
from tests.rows import each_row
from tests.serving_cases import HANG_S, Running

TOKEN = "a-token-for-this-test"


class Echo:
    """A leased sandbox that answers each frame with the frame doubled."""

    workdir = notes = "echo"
    open = True

    def exchange(self, frame: bytes, at_most: int = 0) -> bytes:
        if frame == b"die":
            raise EOFError("the agent is gone")
        return frame * 2

    def close(self) -> None:
        self.open = False


class Slow(Echo):
    """A sandbox that answers when `free` is set, or when it is closed."""

    def __init__(self) -> None:
        self.busy, self.free = threading.Event(), threading.Event()

    def exchange(self, frame: bytes, at_most: int = 0) -> bytes:
        self.busy.set()
        assert self.free.wait(HANG_S)
        if not self.open:
            raise EOFError("it was closed")
        return frame

    def close(self) -> None:
        self.open = False
        self.free.set()


class Server(Running):
    """A real HTTP server in a thread, with sandboxes that only echo."""

    def __init__(self, **serving: Any) -> None:
        self.created: list[tuple[SandboxSpec, Echo]] = []
        protections = {Threat.FILES: not_held("an echo")}
        offer = SandboxOffer(SandboxTier.RLIMITS, "nothing is held", protections, self._make)
        super().__init__(make_app(offer, Serving(token=TOKEN, **serving)))
        self.client.headers["Authorization"] = f"Bearer {TOKEN}"

    def _make(self, spec: SandboxSpec) -> Echo:
        if spec.image == "nowhere":
            raise InfrastructureError("no image 'nowhere'")
        self.created.append((spec, Slow() if spec.workdir == "/slow" else Echo()))
        return self.created[-1][1]


@pytest.fixture
def server() -> Iterator[Callable[..., Server]]:
    running: list[Server] = []

    def start(**serving: Any) -> Server:
        running.append(Server(**serving))
        return running[-1]

    yield start
    for started in running:
        started.stop()


@pytest.fixture
def shared(server: Callable[..., Server]) -> Server:
    return server()


def opened(server: Server, **spec: Any) -> str:
    answer = server.client.post("/sandboxes", json=spec)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def send(server: Server, name: str, content: Any) -> httpx.Response:
    return server.client.post(f"/sandboxes/{name}/frames", content=content)


@each_row(
    "limits, names, error, refused",
    [
        ({"at_most": 2}, [{}, {}], ServerFull, {}),
        ({"at_most": 4, "per_client": 2}, [{"client": "a"}] * 2 + [{"client": "b"}], TooManyForClient, {"client": "a"}),
        ({"at_most": 9, "kinds": 2}, [{"kind": "/a"}, {"kind": "/b"}, {"kind": "/b"}], ServerFull, {"kind": "/c"}),
    ],
)
def test_sandboxes_clients_and_kinds_are_bounded_and_closing_makes_room(
    limits: dict[str, Any], names: list[dict[str, str]], error: type[Exception], refused: dict[str, str]
):
    leases = Leases(silent_s=60, **limits)
    first, *_ = [leases.open(Echo, **name)[0] for name in names]
    with pytest.raises(error):
        leases.open(lambda: pytest.fail("it must not even be created"), **refused)
    leases.close(first)
    leases.open(Echo, **refused)


def test_only_sandboxes_of_silent_clients_are_closed_and_in_the_end_all(monkeypatch: pytest.MonkeyPatch):
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr("agentgym.tools.sandbox.leases.time", clock)
    leases = Leases(at_most=3, silent_s=0.2)
    silent, talking, renewed = Echo(), Echo(), Echo()
    names = [leases.open(lambda echo=echo: echo)[0] for echo in (silent, talking, renewed)]
    for _ in range(3):
        clock.now += 0.15
        assert leases.exchange(names[1], b"x", 0) == b"xx"
        assert leases.renew([names[2]]) == []
    assert leases.close_silent() == 1
    assert (silent.open, talking.open, renewed.open) == (False, True, True)
    assert leases.renew(names) == [names[0]]
    leases.close_all()
    assert not renewed.open
    with pytest.raises(ServerFull):
        leases.open(Echo)


def test_every_path_requires_the_token(shared: Server):
    del shared.client.headers["Authorization"]
    for method, path in (("GET", "/"), ("POST", "/sandboxes"), ("POST", "/renew")):
        for header in (b"", b"Bearer wrong", TOKEN.encode(), f"Bearer {TOKEN}\xe9".encode("latin-1")):
            answer = shared.client.request(method, path, headers={b"Authorization": header}, json={"ids": []})
            assert answer.status_code == 401, (method, path, header)
    assert not shared.created


def test_a_too_large_request_is_refused_and_leaves_the_sandbox_open(server: Callable[..., Server]):
    running = server(frame_bytes=1000)
    name = opened(running)
    contents = (b"x" * 1001, (b"x" * 600 for _ in range(2)), b"x" * 1000)
    assert [send(running, name, content).status_code for content in contents] == [413, 411, 200]


@each_row(
    "content",
    [
        b"",
        b"[" * 100_000,
        b'{"limits": {"wall_s": NaN}}',
        b'{"limits": {"wall_s": 1, "wall_s": 2}}',
        b'{"limits": {"nonsense": 1}}',
        b'{"limits": {"processes": "7"}}',
        b'{"environment": {"A=B": "1"}}',
        b'{"environment": {"A": "\\ud800"}}',
        b'{"workdir": "work"}',
        b'{"workdir": "/proc/1"}',
        b'{"workdir": "/work/../etc"}',
        b'{"template": "/etc"}',
        b'{"preload": ["os"]}',
    ],
)
def test_an_invalid_spec_is_refused(shared: Server, content: bytes):
    answer = shared.client.post("/sandboxes", content=content)
    assert answer.status_code in (400, 422)
    assert not shared.created


def test_sandboxes_that_failed_or_ended_are_reported_and_take_no_place(server: Callable[..., Server]):
    running = server(sandboxes=1)
    answer = running.client.post("/sandboxes", json={"image": "nowhere"})
    assert answer.status_code == 503
    assert "no image 'nowhere'" in answer.json()["detail"]
    name = opened(running)
    assert [send(running, name, content).status_code for content in (b"die", b"x")] == [410, 404]
    opened(running)


@each_row("serving, status", [({"sandboxes": 1}, 503), ({"per_client": 1}, 429)])
def test_a_full_server_or_client_is_refused_until_a_sandbox_is_closed(
    server: Callable[..., Server], serving: dict[str, int], status: int
):
    running = server(**serving)
    name = opened(running)
    assert running.client.post("/sandboxes", json={}).status_code == status
    assert running.client.delete(f"/sandboxes/{name}").status_code == 204
    opened(running)


def test_limits_of_a_sandbox_or_run_above_the_servers_are_refused_by_name(server: Callable[..., Server]):
    running = server(limits=SandboxLimits(wall_s=60))
    for name in ("wall_s", "disk_mb"):
        answer = running.client.post("/sandboxes", json={"limits": {name: 1_000_000}})
        assert (answer.status_code, f"limits.{name}=" in answer.text) == (400, True)
    assert running.created == []
    name = opened(running)
    for wall_s, status in ((60, 200), (61, 400), (float("nan"), 400), ("long", 400)):
        frame = wire.encode({"op": "exec", "limits": {"wall_s": wall_s}}, [b"code"])
        assert send(running, name, frame).status_code == status


def slow(server: Server) -> tuple[str, Slow]:
    name = opened(server, workdir="/slow")
    sandbox = server.created[-1][1]
    assert isinstance(sandbox, Slow)
    return name, sandbox


@each_row("content", [b"x" * 1_000_000, wire.encode({"op": "read", "max_bytes": 900_000})])
def test_frames_and_answers_in_progress_are_bounded_and_concurrent_ones_refused(
    server: Callable[..., Server], content: bytes
):
    running = server(memory_mb=3, patience_s=0.2)
    name, sandbox = slow(running)
    other = opened(running)
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(send, running, name, content)
        assert sandbox.busy.wait(HANG_S)
        assert send(running, name, b"concurrent").status_code == 429
        assert send(running, other, b"small").status_code == 200
        refused = send(running, other, content)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        sandbox.free.set()
        assert first.result().status_code == 200
    assert send(running, other, content).status_code == 200


def test_a_stopping_server_closes_all_sandboxes_and_does_not_wait_for_answers(shared: Server):
    opened(shared)
    name, sandbox = slow(shared)
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(send, shared, name, b"x")
        assert sandbox.busy.wait(HANG_S)
        shared.stop()
        assert isinstance(first.exception(), httpx.HTTPError) or first.result().status_code in (410, 503)
    assert [echo.open for _, echo in shared.created] == [False, False]
