"""Our client of the Search-R1 API with servers of other projects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.tools.index import NoSuchDocument
from agentgym.tools.index.client import SearchR1Client
from agentgym.tools.index.connection import TokenBucket
from tests.endpoints import Fake, Said
from tests.rows import each_row

pytest.importorskip("httpx", reason="needs the [serve] extra")


@contextmanager
def answering(answer: Callable[[Any, int], Said], **options: Any) -> Iterator[tuple[Fake, SearchR1Client]]:
    """Run a server with these answers, and a client of it."""
    server = Fake(answer)
    with server.serving() as url, closing(SearchR1Client(url, backoff_s=0.001, **options)) as client:
        yield server, client


def results(content: Any, _: int) -> Said:
    return Said({"result": [[{"document": passage(query, "text", id=query)}] for query in content["queries"]]})


def passage(title: str, text: str, **more: Any) -> dict[str, Any]:
    return {"contents": f'"{title}"\n{text}', **more}


def test_documents_of_a_server_that_can_only_search_can_be_opened():
    items = [
        {"document": passage("A", "one\ntwo", id=7), "score": 2.5},
        {"document": passage("B", "three"), "score": 1},
    ]
    with answering(lambda content, _: Said({"result": [items for _ in content["queries"]]})) as (server, client):
        first, second = client.search("q", k=2)
        assert (first.id, first.title, first.snippet, first.score) == ("7", "A", "one two", 2.5)
        assert client.open("7").text == "one\ntwo"
        assert client.open(second.id).title == "B"
        assert client.search("q", k=2)[1].id == second.id
        with pytest.raises(NoSuchDocument):
            client.open("8")
        assert server.requests[0] == {"queries": ["q"], "topk": 2, "return_scores": True}


def test_queries_are_sent_in_one_request_without_empty_ones():
    with answering(results) as (server, client):
        assert [len(hits) for hits in client.search_many(["a", " ", "b"])] == [1, 0, 1]
        assert client.search("!?") == []
        assert [content["queries"] for content in server.requests] == [["a", "b"]]


def test_queries_that_are_too_many_for_one_request_go_in_several():
    def answer(content: Any, _: int) -> Said:
        return results(content, _) if len(content["queries"]) <= 3 else Said({"detail": "not now"}, 413)

    with answering(answer) as (server, client):
        queries = [f"q{number}" for number in range(20)]
        for _ in range(2):
            assert [hits[0].id for hits in client.search_many(queries, k=1)] == queries
        # The client remembers the server's limit: only the first three requests were too large.
        assert [len(request["queries"]) for request in server.requests][:4] == [20, 10, 5, 2]
        assert len(server.requests) == 3 + 10 + 10


def test_unsupported_requests_are_mistakes_of_the_caller():
    with answering(lambda *_: Said({"detail": "not now"}, 413)) as (server, client):
        with pytest.raises(UsageError, match="does not support filters"):
            client.search("q", filters={"kind": "x"})
        assert server.requests == []
        with pytest.raises(UsageError, match="not now"):
            client.search("q", k=1000)
        assert len(server.requests) == 1


@each_row("status", [408, 429, 503])
def test_requests_to_a_busy_server_are_retried(status: int):
    with answering(lambda content, n: Said({}, status) if n < 2 else results(content, n)) as (server, client):
        assert client.search("q")[0].id == "q"
        assert len(server.requests) == 3


def test_a_failing_server_is_an_infrastructure_error():
    with answering(lambda *_: Said({"detail": "out of memory"}, 500), retries=2) as (server, client):
        with pytest.raises(InfrastructureError, match=r"out of memory.*tried 3 times"):
            client.search("q")
        assert len(server.requests) == 3


@each_row("answer", ["<html>", {"result": []}, {"result": [[{"document": 1}]]}, [1]])
def test_an_invalid_answer_is_an_infrastructure_error(answer: Any):
    with answering(lambda *_: Said(answer)) as (_, client), pytest.raises(InfrastructureError):
        client.search("q")


@each_row("url", ["ftp://host", "host:80", "http://user:secret@host"])
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
