"""An index behind HTTP: clients of the Search-R1 contract, ours and others', and the server they meet."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentgym.errors import InfrastructureError, UsageError
from agentgym.tools.index import Document, Index, NoSuchDocument, build_index, open_index
from agentgym.tools.index.client import SearchR1Client
from agentgym.tools.index.rate import TokenBucket
from tests.rows import each_row
from tests.servers import QuietHandler, serving

httpx = pytest.importorskip("httpx", reason="needs the [serve] extra")
pytest.importorskip("uvicorn", reason="needs the [serve] extra")

TOKEN = "a token of more than sixteen characters".replace(" ", "-")


def documents() -> list[Document]:
    return [
        Document(
            f"d{i}",
            f"Town {i}",
            f'Town {i} lies on the river "R{i % 7}".\nIt has {1000 + i} people.',
            {"parity": "eo"[i % 2]},
        )
        for i in range(200)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("index") / "towns"
    build_index(documents(), place).close()
    return place


@contextmanager
def served(folder: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `agentgym serve index` in a process of its own."""
    command = [sys.executable, "-m", "agentgym", "serve", "index", str(folder), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            while not (line := process.stdout.readline()).startswith("Listening on "):
                assert line, "the server ended"
            yield line.removeprefix("Listening on ").strip(), process
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with served(folder) as (place, _):
        yield place


@pytest.fixture(scope="module")
def local(folder: Path) -> Iterator[Index]:
    index = open_index(folder)
    yield index
    index.close()


@pytest.fixture
def client(url: str) -> Iterator[SearchR1Client]:
    made = SearchR1Client(url)
    yield made
    made.close()


def ask(url: str, content: Any, path: str = "/retrieve", **options: Any) -> Any:
    return httpx.post(url + path, json=content, trust_env=False, **options)


def as_search_r1_shows(url: str, queries: list[str], topk: int | None) -> list[str]:
    """Ask and read answers the way the trainers of the contract do."""
    answer = ask(url, {"queries": queries, "topk": topk, "return_scores": True})
    answer.raise_for_status()
    shown = []
    for passages in answer.json()["result"]:
        text = ""
        for place, item in enumerate(passages, 1):
            document, _score = item["document"], float(item["score"])
            title, *lines = document["contents"].split("\n")
            text += f"Doc {place}(Title: {title}) {chr(10).join(lines)}\n"
        shown.append(text)
    return shown


@pytest.mark.real
def test_a_search_r1_trainer_works_unchanged(url: str):
    one, none = as_search_r1_shows(url, ["Town 17", "?!"], topk=1)
    assert one == 'Doc 1(Title: "Town 17") Town 17 lies on the river "R3".\nIt has 1017 people.\n'
    assert none == ""


@pytest.mark.real
def test_a_trainer_that_says_not_how_many_gets_three(url: str):
    assert [len(text.split("Doc ")) - 1 for text in as_search_r1_shows(url, ["river"], topk=None)] == [3]
    assert [len(text.split("Doc ")) - 1 for text in as_search_r1_shows(url, ["river"], topk=0)] == [3]


def test_without_scores_the_documents_come_bare(url: str):
    (found,) = ask(url, {"queries": ["Town 5 1005"], "topk": 2, "return_scores": False}).json()["result"]
    assert found[0].keys() == {"id", "contents"}
    assert found[0]["id"] == "d5"
    assert found == ask(url, {"queries": ["Town 5 1005"], "topk": 2}).json()["result"][0]


def test_the_client_finds_what_the_index_finds(client: SearchR1Client, local: Index):
    queries = ["Town 3 river", "people of R2", "", "***", "nothing-like-this"]
    assert client.search_many(queries, k=4) == local.search_many(queries, k=4)
    assert client.search("Town 8", k=2, filters={"parity": "o"}) == local.search("Town 8", k=2, filters={"parity": "o"})
    assert len(client) == len(local) == 200


def test_the_client_opens_what_the_index_opens(client: SearchR1Client, local: Index):
    assert client.open("d9") == local.open("d9")
    assert client.open("d9", (5, 12)) == local.open("d9", (5, 12))
    with pytest.raises(NoSuchDocument):
        client.open("d999")


def test_64_clients_at_one_time_get_right_answers(url: str, local: Index):
    def work(number: int) -> bool:
        with closing(SearchR1Client(url)) as mine:
            queries = [f"Town {number} {1000 + number}", f"river R{number % 7}"]
            return all(mine.search_many(queries, k=3) == local.search_many(queries, k=3) for _ in range(5))

    with ThreadPoolExecutor(64) as threads:
        assert all(threads.map(work, range(64)))


def test_one_client_serves_many_threads_and_survives_a_pickle(client: SearchR1Client, local: Index):
    copy = pickle.loads(pickle.dumps(client))
    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(lambda i: copy.search(f"Town {i}", k=1), range(100)))
    assert found == [local.search(f"Town {i}", k=1) for i in range(100)]
    copy.close()


@pytest.mark.real
def test_several_processes_serve_one_index_and_end_together(folder: Path, local: Index):
    with served(folder, "--workers", "2") as (place, process):
        for number in range(10):
            with closing(SearchR1Client(place)) as client:
                assert client.search(f"Town {number}", k=2) == local.search(f"Town {number}", k=2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(place, trust_env=False)


@pytest.mark.real
def test_the_server_ends_with_success_on_sigterm(folder: Path):
    with served(folder) as (place, process):
        assert httpx.get(place, trust_env=False).json()["documents"] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.mark.real
def test_a_token_is_wanted_for_everything(folder: Path, tmp_path: Path):
    (tmp_path / "token").write_text(TOKEN)
    with served(folder, "--token-file", str(tmp_path / "token")) as (place, _):
        refused = [httpx.get(place, trust_env=False), ask(place, {"queries": []}), ask(place, {"id": "d1"}, "/open")]
        assert [answer.status_code for answer in refused] == [401, 401, 401]
        with closing(SearchR1Client(place, TOKEN)) as client:
            assert client.open("d1").title == "Town 1"
        with closing(SearchR1Client(place, "wrong" * 5)) as client, pytest.raises(UsageError, match="token"):
            client.search("Town")


@each_row(
    "content, status, words",
    [
        ({"queries": "Town"}, 422, "queries"),
        ({"queries": [1]}, 422, "queries"),
        ({}, 422, "queries"),
        ([], 422, "object"),
        ({"queries": ["a"], "topk": 101}, 422, "topk"),
        ({"queries": ["a"], "topk": -1}, 422, "topk"),
        ({"queries": ["a"], "topk": True}, 422, "topk"),
        ({"queries": ["a"], "return_scores": "yes"}, 422, "return_scores"),
        ({"queries": ["a"], "filters": {"parity": 1}}, 422, "filters"),
        ({"queries": ["a"] * 4097}, 413, "4096 queries"),
        ({"queries": ["a"] * 4000, "topk": 50}, 413, "16384 documents"),
        ({"queries": ["a" * (8 << 20)]}, 413, "larger than"),
    ],
)
def test_a_request_that_cannot_be_met_is_told_why(url: str, content: Any, status: int, words: str):
    answer = ask(url, content)
    assert answer.status_code == status
    assert words in answer.json()["detail"]


def test_what_is_no_json_and_where_nothing_is_are_told_in_json(url: str):
    broken = httpx.post(url + "/retrieve", content=b"{" * 5000, trust_env=False)
    assert (broken.status_code, "JSON" in broken.json()["detail"]) == (400, True)
    assert httpx.get(url + "/retrieve", trust_env=False).status_code == 405
    assert "detail" in ask(url, {}, "/nowhere").json()
    assert ask(url, {"id": "d1", "span": [1]}, "/open").status_code == 422


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


def test_documents_without_scores_or_wrapping_are_understood():
    items = [passage("A", "one", id="a"), {"document": passage("No quotes", "two", id="b")}]
    with fake(lambda *_: (200, {"result": [items]})) as server, closing(SearchR1Client(server.url)) as client:
        assert [(hit.id, hit.score) for hit in client.search("q")] == [("a", 0.0), ("b", 0.0)]


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


def test_a_server_that_is_not_there_is_an_infrastructure_error():
    gone = SearchR1Client("http://127.0.0.1:9", retries=1, backoff_s=0.001)
    with closing(gone), pytest.raises(InfrastructureError, match="ConnectError"):
        gone.search("q")


def test_what_the_server_refuses_is_the_callers_error_and_is_not_repeated():
    with fake(lambda *_: (422, {"detail": "topk is too large"})) as server:
        with (
            closing(SearchR1Client(server.url, backoff_s=0.001)) as client,
            pytest.raises(UsageError, match="topk is too large"),
        ):
            client.search("q")
        assert len(server.asked) == 1


@each_row("said", [b"<html>", {"result": []}, {"result": [[{"document": 1}]]}, {"results": []}, [1]])
def test_an_answer_that_is_none_is_an_infrastructure_error(said: Any):
    with fake(lambda *_: (200, said)) as server, closing(SearchR1Client(server.url)) as client:
        assert client
        with pytest.raises(InfrastructureError):
            client.search("q")


@each_row("url", ["ftp://host", "host:80", "", "http://", "http://user:secret@host"])
def test_what_is_no_url_of_a_server_is_refused(url: str):
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
