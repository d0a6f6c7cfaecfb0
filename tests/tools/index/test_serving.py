"""A served index under load: the work of a request is bounded, cancelled when its client is gone, and shared fairly."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

httpx = pytest.importorskip("httpx", reason="needs the [serve] extra")
pytest.importorskip("uvicorn", reason="needs the [serve] extra")

from agentgym.tools.index import Document, Hit, Page, build_index  # noqa: E402
from agentgym.tools.index.asking import IndexServing  # noqa: E402
from agentgym.tools.index.workers import make_app  # noqa: E402
from tests.serving_cases import HANG_S, Running, raw, running, until  # noqa: E402
from tests.tools.index.test_http import served  # noqa: E402

pytestmark = pytest.mark.real


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


def ask(url: str, content: Any) -> Any:
    return httpx.post(f"{url}/retrieve", json=content, trust_env=False, timeout=HANG_S)


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


def test_a_request_that_waits_too_long_gets_503(slow: Slow):
    serving = IndexServing(small_at_work=1, patience_s=0.1)
    with running(make_app(slow, serving)) as server, ThreadPoolExecutor(2) as threads:
        first = held_up(server, threads, slow)
        late = ask(server.url, SMALL)
        assert (late.status_code, late.headers["retry-after"]) == (503, "1")
        slow.free.set()
        assert first.result().status_code == 200


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


_STUCK = """
import signal, time
from agentgym.tools.index.memory import MemoryIndex
from agentgym.tools.index.workers import make_app
from agentgym.base.signals import end_process
from agentgym.tools.serving.running import listen, run_server, url_of

signal.signal(signal.SIGTERM, signal.default_int_handler)  # as the commands do

class Stuck(MemoryIndex):
    def search_many(self, queries, k=5, filters=None):
        print("stuck", flush=True)
        while True:
            time.sleep(3600)

listening = listen("127.0.0.1", 0)
print(url_of(listening), flush=True)
run_server(make_app(Stuck([])), listening)
end_process()
"""


def test_sigterm_ends_a_server_that_is_stuck_in_a_thread():
    with subprocess.Popen([sys.executable, "-c", _STUCK], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            url = process.stdout.readline().strip()
            with ThreadPoolExecutor(1) as thread:
                future = thread.submit(ask, url, SMALL)
                assert process.stdout.readline() == "stuck\n"
                process.send_signal(signal.SIGTERM)
                assert process.wait(HANG_S) == 0
                assert future.result().status_code == 503
        finally:
            process.kill()
