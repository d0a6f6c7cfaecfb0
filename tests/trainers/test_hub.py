"""A model that the hub does not provide: one question to the hub, one line of error."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

pytest.importorskip("transformers", reason="needs the [train] extra")

from huggingface_hub import constants

from agentgym.base.errors import UsageError
from agentgym.trainers.hub import options_for
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]

MODEL = "some-org/some-model"
COMMIT = "0" * 40


class Hub(ThreadingHTTPServer):
    """A model hub that gives the same answer to every question, and remembers the questions about models."""

    def __init__(self, status: int, code: str | None):
        super().__init__(("127.0.0.1", 0), _Answer)
        self.status, self.code = status, code
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        assert isinstance(self.server, Hub)
        if "/resolve/" in self.path:  # the client has questions of its own, too
            self.server.asked.append(self.path)
        self.send_response(self.server.status)
        if self.server.code is not None:
            self.send_header("X-Error-Code", self.server.code)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", '"etag"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture(autouse=True)
def use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Points the hub's client, with a cache of its own, at an address."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))

    def point(url: str) -> None:
        monkeypatch.setattr(constants, "ENDPOINT", url)
        template = url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)

    point(f"http://127.0.0.1:{_closed_port()}")
    return point


@pytest.fixture
def hub(use: Callable[[str], None]) -> Iterator[Callable[..., Hub]]:
    """Starts a hub that gives one answer, and points the client at it."""
    running: list[tuple[Hub, Thread]] = []

    def start(status: int, code: str | None = None) -> Hub:
        server = Hub(status, code)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        running.append((server, thread))
        use(server.url)
        return server

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


def _closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def put_into_cache() -> None:
    folder = Path(constants.HF_HUB_CACHE) / f"models--{MODEL.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    (folder / "snapshots" / COMMIT).mkdir(parents=True)
    (folder / "snapshots" / COMMIT / "config.json").write_text("{}")


def test_a_model_that_the_hub_has_is_loaded_as_usual_after_one_question(hub: Any):
    server = hub(200)
    assert options_for(MODEL) == {}
    assert server.asked == [f"/{MODEL}/resolve/main/config.json"]


@each_row(
    "status, code, why",
    [
        (404, "RepoNotFound", "has no such model; if it is private, log in with `hf auth login`"),
        (401, "RepoNotFound", "has no such model; if it is private, log in with `hf auth login`"),
        (403, "GatedRepo", "it is gated; accept its terms at "),
        (503, None, "answers with an error: Server error '503 Service Unavailable'"),
        (429, None, "answers with an error: "),
    ],
)
def test_a_model_that_the_hub_does_not_provide_is_one_line_after_one_question(
    hub: Any, status: int, code: str | None, why: str
):
    server = hub(status, code)
    with pytest.raises(UsageError) as caught:
        options_for(MODEL)
    [line] = str(caught.value).splitlines()
    assert line.startswith(f"cannot load model {MODEL!r}: ")
    assert why in line
    assert "a folder with a transformers checkpoint" in line
    assert len(server.asked) == 1


def test_a_hub_out_of_reach_is_one_line():
    with pytest.raises(UsageError, match=f"cannot load model '{MODEL}': it is not in the cache, and http.* be reached"):
        options_for(MODEL)


@pytest.mark.parametrize("status", [None, 401, 503])
def test_a_model_in_the_cache_is_loaded_without_the_hub(hub: Any, status: int | None):
    if status is not None:
        hub(status)
    put_into_cache()
    assert options_for(MODEL) == {"local_files_only": True}
