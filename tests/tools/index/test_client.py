"""Our client of the Search-R1 API with servers of other projects."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.tools.index import NoSuchDocument
from agentgym.tools.index.client import SearchR1Client
from agentgym.tools.index.connection import TokenBucket
from tests.rows import each_row
from tests.servers import QuietHandler, serving

pytest.importorskip("httpx", reason="needs the [serve] extra")


@dataclass
class Fake:
    """A server of another project: its answers and the requests to it."""

    answer: Callable[[int, Any], tuple[int, Any]]
    requests: list[Any] = field(default_factory=list)
    url: str = ""


@contextmanager
def fake(answer: Callable[[int, Any], tuple[int, Any]], **options: Any) -> Iterator[tuple[Fake, SearchR1Client]]:
    """Run a server with these answers, and a client of it."""
    server = Fake(answer)
    lock = threading.Lock()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                server.requests.append(content)
                status, result = server.answer(len(server.requests), content)
            self.reply(status, result)

        def do_GET(self) -> None:
            self.reply(404, {"detail": "Not Found"})

        def reply(self, status: int, content: Any) -> None:
            self.send_body(status, content if isinstance(content, bytes) else json.dumps(content).encode())

    with serving(Handler) as server.url, closing(SearchR1Client(server.url, backoff_s=0.001, **options)) as client:
        yield server, client


def passage(title: str, text: str, **more: Any) -> dict[str, Any]:
    return {"contents": f'"{title}"\n{text}', **more}


def test_documents_of_a_server_that_can_only_search_can_be_opened():
    items = [
        {"document": passage("A", "one\ntwo", id=7), "score": 2.5},
        {"document": passage("B", "three"), "score": 1},
    ]
    with fake(lambda _, content: (200, {"result": [items for _ in content["queries"]]})) as (server, _):
        with closing(SearchR1Client(server.url + "/retrieve")) as client:
            first, second = client.search("q", k=2)
            assert (first.id, first.title, first.snippet, first.score) == ("7", "A", "one two", 2.5)
            assert client.open("7").text == "one\ntwo"
            assert client.open(second.id).title == "B"
            assert client.search("q", k=2)[1].id == second.id
            with pytest.raises(NoSuchDocument):
                client.open("8")
        assert server.requests[0] == {"queries": ["q"], "topk": 2, "return_scores": True}


def test_queries_are_sent_in_one_request_without_empty_ones():
    with fake(lambda _, content: (200, {"result": [[] for _ in content["queries"]]})) as (server, client):
        assert client.search_many(["a", " ", "b"]) == [[], [], []]
        assert client.search("!?") == []
        assert [content["queries"] for content in server.requests] == [["a", "b"]]


def test_filters_are_refused_if_the_server_would_ignore_them():
    with fake(lambda *_: (200, {"result": [[]]})) as (server, client):
        with pytest.raises(UsageError, match="does not support filters"):
            client.search("q", filters={"kind": "x"})
        assert server.requests == []


def test_requests_to_an_unavailable_server_are_retried():
    with fake(lambda count, _: (503, {"detail": "soon"}) if count < 3 else (200, {"result": [[]]})) as (server, client):
        assert client.search("q") == []
        assert len(server.requests) == 3


def test_a_failing_server_is_an_infrastructure_error():
    with fake(lambda *_: (500, {"detail": "out of memory"}), retries=2) as (server, client):
        with pytest.raises(InfrastructureError, match=r"out of memory.*tried 3 times"):
            client.search("q")
        assert len(server.requests) == 3


@each_row("answer", [b"<html>", {"result": []}, {"result": [[{"document": 1}]]}, {"results": []}, [1]])
def test_an_invalid_answer_is_an_infrastructure_error(answer: Any):
    with fake(lambda *_: (200, answer)) as (_, client):
        assert client
        with pytest.raises(InfrastructureError):
            client.search("q")


@each_row("url", ["ftp://host", "host:80", "", "http://", "http://user:secret@host"])
def test_an_invalid_server_url_is_refused(url: str):
    with pytest.raises(UsageError, match="http://host:port"):
        SearchR1Client(url)


def test_a_rate_limit_is_shared_by_all_threads():
    slept: list[float] = []
    bucket = TokenBucket(10.0, burst=5, clock=lambda: 100.0, sleep=slept.append)
    with ThreadPoolExecutor(8) as threads:
        waits = sorted(threads.map(lambda _: bucket.take(), range(25)))
    assert waits[:5] == [0.0] * 5
    assert waits[5:] == pytest.approx([n / 10 for n in range(1, 21)])
    assert sorted(slept) == waits[5:]
