"""An index behind HTTP: the server, its limits, our client, and other clients of the Search-R1 API."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import HANG_S

httpx = pytest.importorskip("httpx", reason="needs the [serve] extra")
pytest.importorskip("uvicorn", reason="needs the [serve] extra")

from agentgym.base.errors import UsageError  # noqa: E402
from agentgym.tools.index import Document, Hit, Index, NoSuchDocument, Page, build_index, open_index  # noqa: E402
from agentgym.tools.index.asking import IndexServing  # noqa: E402
from agentgym.tools.index.client import SearchR1Client  # noqa: E402
from agentgym.tools.index.workers import make_app  # noqa: E402
from tests.rows import each_row  # noqa: E402
from tests.serving_cases import Running, raw, running, until  # noqa: E402

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
            process.wait(HANG_S)


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


def ask(url: str, content: Any, path: str = "/retrieve") -> Any:
    return httpx.post(url + path, json=content, trust_env=False, timeout=HANG_S)


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


# Under load: the work of a request is bounded, cancelled when its client is gone, and shared fairly.

LARGE = {"queries": ["word"] * 1024, "topk": 1}
SMALL = {"queries": ["word"], "topk": 1}


class Slow:
    """An index that counts its searches, which wait until `free` is set and take at least 2 ms."""

    name = "slow"

    def __init__(self) -> None:
        self.searches = 0
        self.free = threading.Event()
        self.free.set()

    def __len__(self) -> int:
        return 1

    def find_many(self, queries: Sequence[str], k: int = 5, filters: Any = None) -> list[list[tuple[float, Document]]]:
        self.searches += 1
        self.free.wait(HANG_S)
        time.sleep(0.002)
        return [[(1.0, Document("d", "t", "text"))] for _ in queries]

    def search(self, query: str, k: int = 5, filters: Any = None) -> list[Hit]:
        raise AssertionError("whole documents are found at once")

    def search_many(self, queries: Sequence[str], k: int = 5, filters: Any = None) -> list[list[Hit]]:
        raise AssertionError("whole documents are found at once")

    def open(self, document_id: str, span: Any = None) -> Page:
        return Page(document_id, "t", "text", 0, 4, 4)

    def close(self) -> None: ...


@pytest.fixture
def slow() -> Iterator[Slow]:
    index = Slow()
    yield index
    index.free.set()


def request_bytes(content: Any) -> bytes:
    body = json.dumps(content).encode()
    return b"POST /retrieve HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def test_the_work_for_a_disconnected_client_is_cancelled(slow: Slow):
    with running(make_app(slow, IndexServing(large_at_work=1))) as server:
        slow.free.clear()
        with raw(server.port, request_bytes(LARGE)):
            until(lambda: slow.searches)
        until(lambda: server.connections == 0)
        slow.free.set()
        # The next large request gets its turn when the first one has ended, which would have taken 128 searches too.
        assert ask(server.url, LARGE).status_code == 200
        assert slow.searches < 2 * 128


def test_a_small_request_does_not_wait_for_whole_large_ones(slow: Slow):
    with running(make_app(slow, IndexServing(threads=1))) as server, ThreadPoolExecutor(8) as threads:
        large = [threads.submit(ask, server.url, LARGE) for _ in range(8)]
        until(lambda: slow.searches)
        assert ask(server.url, SMALL).status_code == 200
        assert not any(future.done() for future in large)
        assert [future.result().status_code for future in large] == [200] * 8


def held_up(server: Running, threads: ThreadPoolExecutor, slow: Slow) -> Future[Any]:
    """Send a small request whose search waits until `slow.free` is set."""
    slow.free.clear()
    before = slow.searches
    future = threads.submit(ask, server.url, SMALL)
    until(lambda: slow.searches > before)
    return future


def test_requests_beyond_the_queue_are_refused_immediately(slow: Slow):
    serving = IndexServing(small_at_work=1, small_waiting=2, threads=2)
    with running(make_app(slow, serving)) as server, ThreadPoolExecutor(20) as threads:
        first = held_up(server, threads, slow)
        others = [threads.submit(ask, server.url, SMALL) for _ in range(10)]
        until(lambda: sum(future.done() for future in others) == 8)
        refused = [future.result() for future in others if future.done()]
        assert {(answer.status_code, answer.headers["retry-after"]) for answer in refused} == {(429, "1")}
        assert "waiting" in refused[0].json()["detail"]
        slow.free.set()
        assert first.result().status_code == 200
        assert sorted(future.result().status_code for future in others) == [200] * 2 + [429] * 8


def test_work_that_takes_too_long_is_cancelled(slow: Slow):
    with running(make_app(slow, IndexServing(request_s=0.1))) as server:
        answer = ask(server.url, LARGE)
        assert answer.status_code == 503
        assert "longer than 0.1 s" in answer.json()["detail"]
        assert slow.searches < 128


@pytest.fixture(scope="module")
def long_texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("index") / "long"
    texts = (f"word w{number} " * (3000 + number) for number in range(200))
    build_index((Document(f"d{number}", "", text) for number, text in enumerate(texts)), place).close()
    return place


def test_an_answer_that_is_too_large_is_refused(long_texts: Path):
    with served(long_texts) as (url, _):
        answer = ask(url, {"queries": [f"word w{number}" for number in range(1024)], "topk": 16})
        assert (answer.status_code, "answer is larger than" in answer.json()["detail"]) == (413, True)


def test_sigterm_ends_a_server_under_full_load(long_texts: Path):
    content = {"queries": [f"word w{number}" for number in range(4096)], "topk": 1}
    with served(long_texts, "--workers", "2") as (url, process), ThreadPoolExecutor(8) as threads:
        idle = _cpu_ticks(process.pid)
        futures = [threads.submit(ask, url, content) for _ in range(8)]
        until(lambda: _cpu_ticks(process.pid) > idle + 20)
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANG_S) == 0
        assert all(future.exception() or future.result().status_code in (200, 503) for future in futures)


def _cpu_ticks(pid: int) -> int:
    """Return the CPU time of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    stats = [Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split() for number in (pid, *children)]
    return sum(int(fields[11]) + int(fields[12]) for fields in stats)
