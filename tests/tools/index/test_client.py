"""Our client of the Search-R1 contract, in front of servers of other projects."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from agentgym.errors import InfrastructureError, UsageError
from agentgym.tools.index import NoSuchDocument
from agentgym.tools.index.client import SearchR1Client
from agentgym.tools.index.rate import TokenBucket
from tests.rows import each_row
from tests.servers import QuietHandler, serving

pytest.importorskip("httpx", reason="needs the [serve] extra")


@dataclass
class Fake:
    """A server of another project: what it answers, and what it was asked."""

    answer: Callable[[int, Any], tuple[int, Any]]
    asked: list[Any] = field(default_factory=list)
    url: str = ""


@contextmanager
def fake(answer: Callable[[int, Any], tuple[int, Any]]) -> Iterator[Fake]:
    made = Fake(answer)
    lock = threading.Lock()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                made.asked.append(content)
                status, said = made.answer(len(made.asked), content)
            self.reply(status, said)

        def do_GET(self) -> None:
            self.reply(404, {"detail": "Not Found"})

        def reply(self, status: int, said: Any) -> None:
            body = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_body(status, body)

    with serving(Handler) as made.url:
        yield made


def passage(title: str, text: str, **more: Any) -> dict[str, Any]:
    return {"contents": f'"{title}"\n{text}', **more}


def test_a_server_with_only_the_contract_can_be_searched_and_its_documents_opened():
    items = [
        {"document": passage("A", "one\ntwo", id=7), "score": 2.5},
        {"document": passage("B", "three"), "score": 1},
    ]
    with fake(lambda _, content: (200, {"result": [items for _ in content["queries"]]})) as server:
        with closing(SearchR1Client(server.url + "/retrieve")) as client:
            first, second = client.search("q", k=2)
            assert (first.id, first.title, first.snippet, first.score) == ("7", "A", "one two", 2.5)
            assert client.open("7").text == "one\ntwo"
            assert client.open(second.id).title == "B"
            assert client.search("q", k=2)[1].id == second.id
            with pytest.raises(NoSuchDocument):
                client.open("8")
        assert server.asked[0] == {"queries": ["q"], "topk": 2, "return_scores": True}


def test_many_queries_are_one_request_and_empty_ones_none():
    with fake(lambda _, content: (200, {"result": [[] for _ in content["queries"]]})) as server:
        with closing(SearchR1Client(server.url)) as client:
            assert client.search_many(["a", " ", "b"]) == [[], [], []]
            assert client.search("!?") == []
        assert [content["queries"] for content in server.asked] == [["a", "b"]]


def test_filters_are_refused_where_they_would_be_ignored():
    with fake(lambda *_: (200, {"result": [[]]})) as server:
        with closing(SearchR1Client(server.url)) as client, pytest.raises(UsageError, match="does not support filters"):
            client.search("q", filters={"kind": "x"})
        assert server.asked == []


def test_a_server_that_restarts_is_asked_again():
    with fake(lambda count, _: (503, {"detail": "soon"}) if count < 3 else (200, {"result": [[]]})) as server:
        with closing(SearchR1Client(server.url, backoff_s=0.001)) as client:
            assert client.search("q") == []
        assert len(server.asked) == 3


def test_a_server_that_stays_broken_is_an_infrastructure_error():
    with fake(lambda *_: (500, {"detail": "out of memory"})) as server:
        client = SearchR1Client(server.url, retries=2, backoff_s=0.001)
        with closing(client), pytest.raises(InfrastructureError, match=r"out of memory.*tried 3 times"):
            client.search("q")
        assert len(server.asked) == 3


@each_row("said", [b"<html>", {"result": []}, {"result": [[{"document": 1}]]}, {"results": []}, [1]])
def test_an_answer_that_is_none_is_an_infrastructure_error(said: Any):
    with fake(lambda *_: (200, said)) as server, closing(SearchR1Client(server.url)) as client:
        assert client
        with pytest.raises(InfrastructureError):
            client.search("q")


@each_row("url", ["ftp://host", "host:80", "", "http://", "http://user:secret@host"])
def test_an_address_that_is_no_server_url_is_refused(url: str):
    with pytest.raises(UsageError, match="http://host:port"):
        SearchR1Client(url)


def test_a_rate_holds_for_all_threads_together():
    slept: list[float] = []
    bucket = TokenBucket(10.0, burst=5, clock=lambda: 100.0, sleep=slept.append)
    with ThreadPoolExecutor(8) as threads:
        waits = sorted(threads.map(lambda _: bucket.take(), range(25)))
    assert waits[:5] == [0.0] * 5
    assert waits[5:] == pytest.approx([n / 10 for n in range(1, 21)])
    assert sorted(slept) == waits[5:]
