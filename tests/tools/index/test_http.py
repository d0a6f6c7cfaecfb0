"""An index behind HTTP: the server, our client, and other clients of the Search-R1 API."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentgym.base.errors import UsageError
from agentgym.tools.index import Document, Index, NoSuchDocument, build_index, open_index
from agentgym.tools.index.client import SearchR1Client
from tests.rows import each_row

httpx = pytest.importorskip("httpx", reason="needs the [serve] extra")
pytest.importorskip("uvicorn", reason="needs the [serve] extra")

pytestmark = pytest.mark.real

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
    """Run `agentgym serve index` in a separate process."""
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
    with closing(SearchR1Client(url)) as client:
        yield client


def ask(url: str, content: Any, path: str = "/retrieve", **options: Any) -> Any:
    return httpx.post(url + path, json=content, trust_env=False, **options)


def as_search_r1_shows(url: str, queries: list[str], topk: int | None) -> list[str]:
    """Send a request and read the answer like trainers with this API."""
    answer = ask(url, {"queries": queries, "topk": topk, "return_scores": True})
    answer.raise_for_status()
    texts = []
    for passages in answer.json()["result"]:
        text = ""
        for place, item in enumerate(passages, 1):
            document, _score = item["document"], float(item["score"])
            title, *lines = document["contents"].split("\n")
            text += f"Doc {place}(Title: {title}) {chr(10).join(lines)}\n"
        texts.append(text)
    return texts


def test_a_search_r1_trainer_works_unchanged(url: str):
    town = 'Doc 1(Title: "Town 17") Town 17 lies on the river "R3".\nIt has 1017 people.\n'
    assert as_search_r1_shows(url, ["Town 17", "?!"], topk=1) == [town, ""]


def test_documents_are_bare_without_scores(url: str):
    (documents,) = ask(url, {"queries": ["Town 5 1005"], "topk": 2, "return_scores": False}).json()["result"]
    assert documents[0].keys() == {"id", "contents"}
    assert documents[0]["id"] == "d5"
    assert documents == ask(url, {"queries": ["Town 5 1005"], "topk": 2}).json()["result"][0]


def test_the_client_returns_the_results_of_the_index(client: SearchR1Client, local: Index):
    queries = ["Town 3 river", "people of R2", "", "***", "nothing-like-this"]
    assert client.search_many(queries, k=4) == local.search_many(queries, k=4)
    assert client.search("Town 8", k=2, filters={"parity": "o"}) == local.search("Town 8", k=2, filters={"parity": "o"})
    assert len(client) == len(local) == 200
    assert client.open("d9") == local.open("d9")
    assert client.open("d9", (5, 12)) == local.open("d9", (5, 12))
    with pytest.raises(NoSuchDocument):
        client.open("d999")


def test_64_concurrent_clients_get_correct_answers(url: str, local: Index):
    def work(number: int) -> bool:
        with closing(SearchR1Client(url)) as mine:
            queries = [f"Town {number} {1000 + number}", f"river R{number % 7}"]
            return all(mine.search_many(queries, k=3) == local.search_many(queries, k=3) for _ in range(5))

    with ThreadPoolExecutor(64) as threads:
        assert all(threads.map(work, range(64)))


def test_several_processes_serve_one_index_and_end_together(folder: Path, local: Index):
    with served(folder, "--workers", "2") as (place, process):
        for number in range(10):
            with closing(SearchR1Client(place)) as client:
                assert client.search(f"Town {number}", k=2) == local.search(f"Town {number}", k=2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(place, trust_env=False)


def test_every_path_requires_the_token(folder: Path, tmp_path: Path):
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
def test_an_invalid_or_too_large_request_is_refused_with_a_reason(url: str, content: Any, status: int, words: str):
    answer = ask(url, content)
    assert answer.status_code == status
    assert words in answer.json()["detail"]
