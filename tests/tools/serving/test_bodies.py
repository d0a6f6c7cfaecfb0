"""Malformed bodies: both servers answer with a reason in one line of JSON and a 4xx status."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

httpx = pytest.importorskip("httpx", reason="needs the [serve] extra")
pytest.importorskip("uvicorn", reason="needs the [serve] extra")

from agentgym.tools.index import Document  # noqa: E402
from agentgym.tools.index.memory import MemoryIndex  # noqa: E402
from agentgym.tools.index.workers import make_app as index_app  # noqa: E402
from agentgym.tools.sandbox.agent import wire  # noqa: E402
from agentgym.tools.sandbox.offering import offer_of  # noqa: E402
from agentgym.tools.sandbox.serve import Serving  # noqa: E402
from agentgym.tools.sandbox.serve import make_app as sandbox_app  # noqa: E402
from tests.rows import each_row  # noqa: E402
from tests.serving_cases import Running, running  # noqa: E402

pytestmark = pytest.mark.real


TOKEN = secrets.token_hex(16)

NO_JSON = {
    "nothing": b"",
    "cut short": b'{"queries": ["a"',
    "not a number": b'{"queries": ["a"], "topk": NaN}',
    "a number with 5,000 digits": b'{"queries": ["a"], "topk": ' + b"9" * 5000 + b"}",
    "a name twice, deep inside": b'{"queries": [{"a": 1, "a": 2}]}',
    "not UTF-8": b'{"queries": ["\xff\xfe"]}',
    "a control character": b'{"queries": ["\x01"]}',
    "deep lists": b'{"queries": ' + b"[" * 60_000 + b"]" * 60_000 + b"}",
}
WRONG_TYPES = {
    "a list": b"[]",
    "a number": b"1e400",
    "numbers for names": b'{"queries": [1], "ids": [1], "limits": 5, "id": null}',
    "true for a name": b'{"queries": [true], "ids": [true], "limits": true, "id": true}',
}


@pytest.fixture(scope="module")
def index() -> Iterator[Running]:
    with running(index_app(MemoryIndex([Document("d", "A", "word")])), body_bytes=2 << 20) as server:
        yield server


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Running]:
    with running(sandbox_app(offer_of("auto"), Serving(token=TOKEN)), body_bytes=2 << 20) as server:
        server.client.headers["Authorization"] = f"Bearer {TOKEN}"
        yield server


def check_refused(server: Running, path: str, content: bytes, statuses: tuple[int, ...]) -> None:
    answer = server.client.post(path, content=content)
    assert answer.status_code in statuses, answer.text
    assert 0 < len(answer.json()["detail"]) < 1000
    assert "\n" not in answer.json()["detail"]


@each_row("name", NO_JSON)
def test_a_body_that_is_not_json_is_a_bad_request(index: Running, sandbox: Running, name: str):
    for path in ("/retrieve", "/open"):
        check_refused(index, path, NO_JSON[name], (400,))
    for path in ("/sandboxes", "/renew"):
        check_refused(sandbox, path, NO_JSON[name], (400,))


@each_row("name", WRONG_TYPES)
def test_json_of_wrong_types_is_a_clients_mistake(index: Running, sandbox: Running, name: str):
    for path in ("/retrieve", "/open"):
        check_refused(index, path, WRONG_TYPES[name], (422,))
    for path in ("/sandboxes", "/renew"):
        check_refused(sandbox, path, WRONG_TYPES[name], (400, 422))


def test_nothing_of_a_body_is_read_without_the_token(sandbox: Running):
    for path in ("/", "/sandboxes", "/sandboxes/x/frames", "/nowhere"):
        answer = httpx.post(sandbox.url + path, content=b"x" * (1 << 20), trust_env=False)
        assert answer.status_code == 401
        assert "token" in answer.json()["detail"]


def test_a_client_can_name_no_modules_to_import(sandbox: Running):
    answer = sandbox.client.post("/sandboxes", json={"preload": ["antigravity"]})
    assert answer.status_code == 400
    assert "preload" in answer.json()["detail"]


FRAMES = {
    "nothing": b"",
    "a header of 4 GB": b"\xff\xff\xff\xff{}",
    "no JSON": wire.LENGTH.pack(2) + b"{]",
    "deep": wire.LENGTH.pack(60_000) + b"[" * 60_000,
    "cut short": wire.encode({"op": "write", "path": "a", "mode": 0}, [b"12345"])[:-1],
    "followed by another": wire.encode({"op": "health"}) * 2,
    "blobs less than nothing": wire.LENGTH.pack(14) + b'{"blobs":[-1]}',
    "limits that are none": wire.encode({"op": "exec", "limits": {"wall_s": None}}),
    "no such operation": wire.encode({"op": "no such"}),
    "sizes that are none": wire.encode({"op": "read", "path": "a", "max_bytes": "x", "max_entries": -1}),
}


def test_malformed_frames_do_not_harm_their_sandbox(sandbox: Running):
    opened = sandbox.client.post("/sandboxes", json={})
    assert opened.status_code == 201
    path = f"/sandboxes/{opened.json()['id']}"
    for name, frame in FRAMES.items():
        answer = sandbox.client.post(path + "/frames", content=frame)
        assert answer.status_code in (200, 400), name
        if answer.status_code == 200:
            assert wire.header_of(answer.content)["error"] in ("invalid", "not_found"), name
    healthy = sandbox.client.post(path + "/frames", content=wire.encode({"op": "health"}))
    assert wire.header_of(healthy.content)["healthy"] is True
    assert sandbox.client.delete(path).status_code == 204
