"""The server's side of remote sandboxes: tokens, bounds on what is asked for, and no sandbox without a client."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import uvicorn

from agentgym.errors import InfrastructureError, UsageError
from agentgym.tools.sandbox.agent import wire
from agentgym.tools.sandbox.leases import Full, Leases, NoSuchLease, TooManyForClient
from agentgym.tools.sandbox.limits import SandboxLimits
from agentgym.tools.sandbox.protection import Threat, not_held
from agentgym.tools.sandbox.room import max_answer_bytes
from agentgym.tools.sandbox.serve import GENEROUS, Offer, Serving, caps_from, make_app
from agentgym.tools.sandbox.spec import SandboxSpec, SandboxTier
from agentgym.tools.serving.running import listen
from tests.rows import each_row
from tests.tools.sandbox.clock import Clock
from tests.waiting import eventually

TOKEN = "a-token-for-this-test"


class Echo:
    """What is leased: says everything twice."""

    workdir = "/echo"
    notes = "twice"

    def __init__(self) -> None:
        self.open = True

    def exchange(self, frame: bytes, at_most: int = 0) -> bytes:
        if frame == b"die":
            raise EOFError("the agent is gone")
        return frame * 2

    def close(self) -> None:
        self.open = False


class Slow(Echo):
    """Answers only when it may, or when it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.free = threading.Event(), threading.Event()

    def exchange(self, frame: bytes, at_most: int = 0) -> bytes:
        self.asked.set()
        assert self.free.wait(60)
        if not self.open:
            raise EOFError("it was closed")
        return frame

    def close(self) -> None:
        super().close()
        self.free.set()


class Server:
    """A real HTTP server in a thread, over sandboxes that only echo."""

    def __init__(self, **serving: Any) -> None:
        self.made: list[tuple[SandboxSpec, Echo]] = []
        self._listening = listen("127.0.0.1", 0)
        app = make_app(
            Offer(SandboxTier.RLIMITS, "nothing is held", {Threat.FILES: not_held("an echo")}, self._make),
            Serving(token=TOKEN, **serving),
        )
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listening]})
        self._thread.start()
        host, port = self._listening.getsockname()
        self.client = httpx.Client(
            base_url=f"http://{host}:{port}", headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False
        )

    def _make(self, spec: SandboxSpec) -> Echo:
        if spec.image == "nowhere":
            raise InfrastructureError("there is no image 'nowhere'")
        self.made.append((spec, Slow() if spec.workdir == "/slow" else Echo()))
        return self.made[-1][1]

    def stop(self) -> None:
        self.client.close()
        self._server.should_exit = True
        self._thread.join(10)
        self._listening.close()


@pytest.fixture
def server() -> Iterator[Callable[..., Server]]:
    running: list[Server] = []

    def start(**serving: Any) -> Server:
        running.append(Server(**serving))
        return running[-1]

    yield start
    for each in running:
        each.stop()


@pytest.fixture
def shared(server: Callable[..., Server]) -> Server:
    """A server for all rows of a table."""
    return server()


def opened(server: Server) -> str:
    answer = server.client.post("/sandboxes", json={})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


# Leases.


def test_no_more_sandboxes_are_opened_than_allowed_and_a_closed_one_makes_room():
    leases = Leases(at_most=2, silent_s=60)
    (first, _), _ = leases.open(Echo), leases.open(Echo)
    with pytest.raises(Full):
        leases.open(lambda: pytest.fail("it must not even be made"))
    leases.close(first)
    leases.open(Echo)


def test_a_sandbox_that_could_not_be_made_takes_no_place():
    leases = Leases(at_most=1, silent_s=60)

    def fail() -> Echo:
        raise InfrastructureError("no")

    with pytest.raises(InfrastructureError):
        leases.open(fail)
    leases.open(Echo)


def test_sandboxes_of_a_silent_client_are_closed_and_of_others_are_not(monkeypatch: pytest.MonkeyPatch):
    clock = Clock()
    monkeypatch.setattr("agentgym.tools.sandbox.leases.time", clock)
    leases = Leases(at_most=3, silent_s=0.2)
    silent, talking, renewed = Echo(), Echo(), Echo()
    names = [leases.open(lambda each=each: each)[0] for each in (silent, talking, renewed)]
    for _ in range(3):
        clock.now += 0.15
        assert leases.exchange(names[1], b"x", 0) == b"xx"
        assert leases.renew([names[2]]) == []
    assert leases.close_silent() == 1
    assert (silent.open, talking.open, renewed.open) == (False, True, True)
    assert leases.renew(names) == [names[0]]


def test_after_closing_all_nothing_is_open_and_nothing_can_be_opened():
    leases = Leases(at_most=2, silent_s=60)
    held = Echo()
    name, _ = leases.open(lambda: held)
    leases.close_all()
    assert not held.open
    with pytest.raises(NoSuchLease):
        leases.exchange(name, b"x", 0)
    with pytest.raises(Full):
        leases.open(Echo)


def test_one_client_may_have_so_many_and_others_still_get_theirs():
    leases = Leases(at_most=4, silent_s=60, per_client=2)
    first, _ = [leases.open(Echo, client="a")[0] for _ in range(2)]
    with pytest.raises(TooManyForClient, match="2 sandboxes"):
        leases.open(lambda: pytest.fail("it must not even be made"), client="a")
    leases.open(Echo, client="b")
    leases.close(first)
    leases.open(Echo, client="a")


def test_kinds_of_sandboxes_are_bounded_and_those_in_use_can_be_had_again():
    leases = Leases(at_most=10, silent_s=60, kinds=2)
    names = [leases.open(Echo, kind=kind)[0] for kind in ("/a", "/b", "/a")]
    with pytest.raises(Full, match="2 different workdirs"):
        leases.open(lambda: pytest.fail("it must not even be made"), kind="/c")
    leases.close(names[1])
    leases.open(Echo, kind="/c")


# Over HTTP.


def test_nothing_is_answered_without_the_token(server: Callable[..., Server]):
    running = server()
    del running.client.headers["Authorization"]
    wrong = ("", "Bearer", "Bearer wrong", TOKEN, f"bearer {TOKEN}", f"Bearer {TOKEN}\xe9")
    for method, path in (("GET", "/"), ("POST", "/sandboxes"), ("POST", "/renew"), ("GET", "/nowhere")):
        for headers in ({}, *({b"Authorization": header.encode("latin-1")} for header in wrong)):
            answer = running.client.request(method, path, headers=headers, json={"ids": []})
            assert answer.status_code in (401, 404), (method, path, headers)
            assert answer.status_code == 401 or path == "/nowhere"
    assert not running.made


def test_frames_come_back_as_the_sandbox_answers_them(server: Callable[..., Server]):
    running = server()
    name = opened(running)
    answer = running.client.post(f"/sandboxes/{name}/frames", content=b"\x00\xff")
    assert answer.content == b"\x00\xff\x00\xff"


def test_a_request_that_is_too_large_is_refused_and_the_sandbox_lives_on(server: Callable[..., Server]):
    running = server(frame_bytes=1000)
    name = opened(running)
    assert running.client.post(f"/sandboxes/{name}/frames", content=b"x" * 1001).status_code == 413
    assert running.client.post(f"/sandboxes/{name}/frames", content=(b"x" * 600 for _ in range(2))).status_code == 413
    assert running.client.post(f"/sandboxes/{name}/frames", content=b"x" * 1000).status_code == 200


def test_a_spec_arrives_as_it_was_asked_for(server: Callable[..., Server]):
    running = server()
    wanted = {"limits": {"wall_s": 3.5, "processes": 7}, "image": "i", "workdir": "/w", "environment": {"A": "b"}}
    assert running.client.post("/sandboxes", json=wanted).status_code == 201
    spec = running.made[0][0]
    assert (spec.limits.wall_s, spec.limits.processes, spec.image, spec.workdir) == (3.5, 7, "i", "/w")
    assert spec.environment == {"A": "b"}


@each_row(
    "wanted",
    [
        b"",
        b"[]",
        b"{",
        b'{"template": "/etc"}',
        b'{"limits": {"wall_s": -1}}',
        b'{"limits": {"wall_s": NaN}}',
        b'{"limits": {"nonsense": 1}}',
        b'{"limits": {"processes": "7"}}',
        b'{"environment": {"A": 1}}',
        b'{"environment": {"A=B": "1"}}',
        b'{"environment": {"": "1"}}',
        b'{"environment": {"A": "\\u0000"}}',
        b'{"environment": {"A": "\\ud800"}}',
        b'{"preload": ["os"]}',
        b'{"limits": {"processes": 7.5}}',
        b'{"limits": {"processes": true}}',
        b'{"limits": {"wall_s": 1e999}}',
        b'{"limits": {"wall_s": ' + b"9" * 5000 + b"}}",
        b'{"limits": {"wall_s": 1, "wall_s": 2}}',
        b'{"workdir": "/\xff"}',
        b'{"workdir": "work"}',
        b'{"workdir": "/"}',
        b'{"workdir": ""}',
        b'{"workdir": "/proc/1"}',
        b'{"workdir": "/usr/x"}',
        b'{"workdir": "/work/../etc"}',
        b'{"workdir": "/work\\u0000"}',
        b'{"workdir": "/' + b"x" * 300 + b'"}',
        b'{"image": "two words"}',
        b"[" * 100_000,
    ],
)
def test_a_spec_that_is_none_is_refused(shared: Server, wanted: bytes):
    running = shared
    answer = running.client.post("/sandboxes", content=wanted)
    assert answer.status_code in (400, 422)
    assert "\n" not in answer.json()["detail"]
    assert not running.made


def test_a_sandbox_that_cannot_be_made_is_reported(server: Callable[..., Server]):
    answer = server().client.post("/sandboxes", json={"image": "nowhere"})
    assert answer.status_code == 503
    assert "there is no image 'nowhere'" in answer.json()["detail"]


def test_a_sandbox_that_ended_itself_is_told_once_and_makes_room(server: Callable[..., Server]):
    running = server(sandboxes=1)
    name = opened(running)
    assert running.client.post(f"/sandboxes/{name}/frames", content=b"die").status_code == 410
    assert running.client.post(f"/sandboxes/{name}/frames", content=b"x").status_code == 404
    opened(running)


def test_a_full_server_says_so(server: Callable[..., Server]):
    running = server(sandboxes=1)
    name = opened(running)
    assert running.client.post("/sandboxes", json={}).status_code == 503
    assert running.client.delete(f"/sandboxes/{name}").status_code == 204
    opened(running)


def test_the_server_closes_the_sandboxes_of_a_silent_client_by_itself(server: Callable[..., Server]):
    running = server(silent_s=0.2)
    opened(running)
    assert eventually(lambda: not running.made[0][1].open)


def test_a_stopping_server_closes_all_sandboxes(server: Callable[..., Server]):
    running = server()
    opened(running)
    opened(running)
    running.stop()
    assert [echo.open for _, echo in running.made] == [False, False]


def test_an_address_that_cannot_be_listened_on_is_reported():
    with listen("127.0.0.1", 0) as taken, pytest.raises(UsageError, match="choose another"):
        listen("127.0.0.1", taken.getsockname()[1])


@each_row("name, value", [("wall_s", 61), ("disk_mb", 1_000_000), ("cpu_s", float("inf"))])
def test_more_than_the_server_gives_is_refused_by_name(server: Callable[..., Server], name: str, value: float):
    running = server(limits=SandboxLimits(wall_s=60))
    answer = running.client.post(
        "/sandboxes", content=json.dumps({"limits": {name: value}}).replace("Infinity", "1e999")
    )
    assert answer.status_code == 400
    assert f"limits.{name}=" in answer.text
    assert f"above {getattr(SandboxLimits(wall_s=60), name)!r}" in answer.text
    assert running.made == []


def test_the_server_says_how_much_can_be_asked_for():
    assert caps_from({"memory_mb": 2048}) == GENEROUS.but(memory_mb=2048)
    for wanted in ({"memory": 2048}, {"memory_mb": "all"}, {"memory_mb": 0}):
        with pytest.raises(UsageError, match="memory"):
            caps_from(wanted)


def test_a_run_may_not_ask_for_more_than_the_server_gives_either(server: Callable[..., Server]):
    running = server(limits=SandboxLimits(wall_s=60))
    name = opened(running)
    for wall_s, status in ((60, 200), (61, 400), (float("nan"), 400), ("long", 400)):
        frame = wire.encode({"op": "exec", "limits": {"wall_s": wall_s}}, [b"code"])
        assert running.client.post(f"/sandboxes/{name}/frames", content=frame).status_code == status


def test_a_client_with_too_many_sandboxes_is_told_so(server: Callable[..., Server]):
    running = server(per_client=1)
    name = opened(running)
    refused = running.client.post("/sandboxes", json={})
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert "close some" in refused.json()["detail"]
    running.client.delete(f"/sandboxes/{name}")
    opened(running)


def slow(server: Server) -> tuple[str, Slow]:
    """Open a sandbox that answers when it may."""
    answer = server.client.post("/sandboxes", json={"workdir": "/slow"})
    assert answer.status_code == 201, answer.text
    held = server.made[-1][1]
    assert isinstance(held, Slow)
    return answer.json()["id"], held


def test_a_sandbox_answers_one_request_at_a_time_and_refuses_others(server: Callable[..., Server]):
    running = server()
    name, held = slow(running)
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(running.client.post, f"/sandboxes/{name}/frames", content=b"x", timeout=60)
        assert held.asked.wait(60)
        refused = running.client.post(f"/sandboxes/{name}/frames", content=b"y")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        held.free.set()
        assert first.result().content == b"x"


@each_row("what", ["frames", "answers"])
def test_frames_and_answers_under_way_are_bounded_and_what_is_more_waits(server: Callable[..., Server], what: str):
    running = server(memory_mb=3, patience_s=0.2)
    name, held = slow(running)
    other = opened(running)
    large = {"frames": b"x" * 1_000_000, "answers": wire.encode({"op": "read", "max_bytes": 900_000})}[what]
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(running.client.post, f"/sandboxes/{name}/frames", content=large, timeout=60)
        assert held.asked.wait(60)
        assert running.client.post(f"/sandboxes/{other}/frames", content=b"small").status_code == 200
        refused = running.client.post(f"/sandboxes/{other}/frames", content=large)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        held.free.set()
        assert first.result().status_code == 200
    assert running.client.post(f"/sandboxes/{other}/frames", content=large).status_code == 200


def test_a_stopping_server_waits_for_no_answer(server: Callable[..., Server]):
    running = server()
    name, held = slow(running)
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(running.client.post, f"/sandboxes/{name}/frames", content=b"x", timeout=60)
        assert held.asked.wait(60)
        running.stop()
        assert isinstance(first.exception(), httpx.HTTPError) or first.result().status_code in (410, 503)
    assert not held.open


def test_the_size_of_an_answer_follows_from_the_request():
    limits = SandboxLimits(output_bytes=1000, reply_bytes=5000).to_dict()
    slack = max_answer_bytes({"op": "health"})
    assert max_answer_bytes({"op": "exec", "limits": limits}) == 2 * 1000 + 5000 + slack
    assert max_answer_bytes({"op": "pack", "max_bytes": 10**6}) >= 2 * 10**6
    assert max_answer_bytes({"op": "read", "max_bytes": 10**30}) == max_answer_bytes({"op": "read", "max_bytes": 1e300})
    for odd in (-1, "x", None, [], float("nan"), float("-inf")):
        assert max_answer_bytes({"max_entries": odd, "limits": {"output_bytes": odd}}) == slack
