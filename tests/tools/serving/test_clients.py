"""Clients of our servers: large requests are split, and a busy server is retried for a limited time."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

httpx = pytest.importorskip("httpx", reason="needs the [serve] extra")

from agentgym.base.errors import InfrastructureError, UsageError  # noqa: E402
from agentgym.base.retries import retry_after_s  # noqa: E402
from agentgym.tools.index import NoSuchDocument  # noqa: E402
from agentgym.tools.index.client import SERVICE, SearchR1Client  # noqa: E402
from agentgym.tools.sandbox import SandboxSpec, SandboxStartFailed  # noqa: E402
from agentgym.tools.sandbox.remote import RemoteBackend  # noqa: E402
from tests.servers import QuietHandler, serving  # noqa: E402

ABOUT = {"service": SERVICE, "documents": 1, "tier": "namespaces", "notes": "", "protections": {}, "silent_s": 60}


class Scripted:
    """A server that answers the n-th POST as a function says."""

    def __init__(self, answer: Callable[[int, Any], tuple[int, Any, dict[str, str]]]) -> None:
        self.asked: list[Any] = []
        self.url = ""
        lock = threading.Lock()
        server = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                with lock:
                    server.asked.append(json.loads(body))
                    status, content, headers = answer(len(server.asked), server.asked[-1])
                self.reply(status, content, headers)

            def do_GET(self) -> None:
                self.reply(200, ABOUT, {})

            def reply(self, status: int, content: Any, headers: dict[str, str]) -> None:
                body = json.dumps(content).encode()
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        self.handler = Handler


@contextlib.contextmanager
def scripted(answer: Callable[[int, Any], tuple[int, Any, dict[str, str]]]) -> Iterator[Scripted]:
    server = Scripted(answer)
    with serving(server.handler) as server.url:
        yield server


def results(content: Any) -> tuple[int, Any, dict[str, str]]:
    hits = [[{"document": {"id": query, "contents": f'"{query}"\ntext'}}] for query in content["queries"]]
    return 200, {"result": hits}, {}


def refused(status: int, retry_after: str = "") -> tuple[int, Any, dict[str, str]]:
    return status, {"detail": "not now"}, {"retry-after": retry_after} if retry_after else {}


def test_queries_that_are_too_many_for_one_request_go_in_several():
    def answer(_: int, content: Any) -> tuple[int, Any, dict[str, str]]:
        return results(content) if len(content["queries"]) <= 3 else refused(413)

    with scripted(answer) as server, closing(SearchR1Client(server.url)) as client:
        queries = [f"q{number}" for number in range(20)]
        assert [hits[0].id for hits in client.search_many(queries, k=1)] == queries
        assert [hits[0].id for hits in client.search_many(queries, k=1)] == queries
        # The client remembers the server's limit: only the first three requests were too large.
        assert [len(request["queries"]) for request in server.asked][:4] == [20, 10, 5, 2]
        assert len(server.asked) == 3 + 10 + 10


def test_a_single_query_that_is_too_large_is_the_callers_mistake():
    with scripted(lambda *_: refused(413)) as server, closing(SearchR1Client(server.url)) as client:
        with pytest.raises(UsageError, match="not now"):
            client.search("q", k=1000)
        assert len(server.asked) == 1


@pytest.mark.parametrize("status", [408, 429, 503])
def test_a_busy_server_is_retried_after_the_time_that_it_names(status: int):
    came: list[float] = []

    def answer(count: int, content: Any) -> tuple[int, Any, dict[str, str]]:
        came.append(time.monotonic())
        return refused(status, "0.2") if count < 3 else results(content)

    with scripted(answer) as server, closing(SearchR1Client(server.url, backoff_s=0.001)) as client:
        assert client.search("q")[0].id == "q"
    assert len(came) == 3
    assert all(later - earlier >= 0.2 for earlier, later in itertools.pairwise(came))


@pytest.mark.parametrize("status", [408, 429, 503])
def test_a_server_that_stays_busy_is_an_infrastructure_error(status: int):
    with scripted(lambda *_: refused(status)) as server:
        client = SearchR1Client(server.url, retries=2, backoff_s=0.001)
        with closing(client), pytest.raises(InfrastructureError, match="not now"):
            client.search("q")
        assert len(server.asked) == 3


def test_characters_that_cannot_be_sent_are_no_error():
    with scripted(lambda _, content: results(content)) as server, closing(SearchR1Client(server.url)) as client:
        assert client.search("\ud800 river \udfff", filters={"a\ud800": "\udc00"})[0].id == "? river ?"
        assert server.asked[0]["filters"] == {"a?": "?"}
        with pytest.raises(NoSuchDocument):
            client.open("\ud800")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7), ("0.5", 0.5), ("-3", 0), ("nan", 0), ("inf", 0), ("soon", 0), ("", 0), ("1e999", 0)],
)
def test_retry_after_is_parsed_and_nonsense_counts_as_0(header: str, seconds: float):
    assert retry_after_s(httpx.Headers({"retry-after": header})) == seconds


def test_a_server_may_ask_for_a_moment():
    for ahead_s, least, most in ((3600, 3500, 3600), (-3600, 0, 0)):
        moment = format_datetime(datetime.now(UTC) + timedelta(seconds=ahead_s), usegmt=True)
        assert least <= retry_after_s(httpx.Headers({"retry-after": moment})) <= most


def test_a_server_of_sandboxes_that_stays_busy_is_an_infrastructure_error():
    with scripted(lambda *_: refused(503, "0.05")) as server:
        backend = RemoteBackend(server.url, "t" * 20, busy_s=1.0)
        with closing(backend), pytest.raises(SandboxStartFailed, match="not now"):
            backend.start(SandboxSpec())
        assert len(server.asked) > 1


@pytest.mark.parametrize("status", [400, 401, 411, 413, 422, 431])
def test_a_final_refusal_of_a_sandbox_server_is_the_callers_mistake(status: int):
    with scripted(lambda *_: refused(status)) as server:
        with closing(RemoteBackend(server.url, "t" * 20)) as backend, pytest.raises(UsageError, match="not now"):
            backend.start(SandboxSpec())
        assert len(server.asked) == 1
