"""An index behind HTTP: the server, our client, and other clients of the Search-R1 API."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
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


def test_a_search_r1_trainer_works_unchanged(url: str):
    answer = ask(url, {"queries": ["Town 17", "?!"], "topk": 1, "return_scores": True})
    (item,), nothing = answer.json()["result"]
    assert item["document"]["contents"] == '"Town 17"\nTown 17 lies on the river "R3".\nIt has 1017 people.'
    assert (item["score"] > 0, nothing) == (True, [])
    (bare, _), _ = ask(url, {"queries": ["Town 17", "?!"], "topk": 2}).json()["result"]
    assert bare == {"id": "d17", "contents": item["document"]["contents"]}


def test_the_client_returns_the_results_of_the_index(client: SearchR1Client, local: Index):
    queries = ["Town 3 river", "people of R2", "", "***", "nothing-like-this"]
    assert client.search_many(queries, k=4) == local.search_many(queries, k=4)
    assert client.search("Town 8", k=2, filters={"parity": "o"}) == local.search("Town 8", k=2, filters={"parity": "o"})
    assert len(client) == len(local) == 200
    assert client.open("d9") == local.open("d9")
    assert client.open("d9", (5, 12)) == local.open("d9", (5, 12))
    with pytest.raises(NoSuchDocument):
        client.open("d999")


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
        ({}, 422, "queries"),
        ([], 422, "object"),
        ({"queries": ["a"], "topk": 101}, 422, "topk"),
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
