"""The clients of `server_soak`: an honest one for each server, and hostile ones. Each runs as a process."""

from __future__ import annotations

import contextlib
import json
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable
from random import Random
from typing import Any
from urllib.parse import urlsplit

import httpx

from agentgym.errors import AgentGymError
from agentgym.tools.index.client import SearchR1Client
from agentgym.tools.sandbox import SandboxLimits, SandboxSpec, open_sandbox
from agentgym.tools.sandbox.remote import RemoteBackend

HALF_OPEN = 1_100
LARGE_MB = 32
_TOKENS = 254


def begin(work: Callable[..., None], url: str, token: str, stop: Any, how: Any, ready: Any) -> None:
    """Do some work as one of several processes that all start together."""
    ready.wait(120)
    with contextlib.suppress(httpx.ConnectError):  # the server has already ended
        work(url, token, stop, how)


def heavy_searches(url: str, token: str, stop: Any, clients: int) -> None:
    """Send the largest requests that the server's limits allow, without a pause, from several clients."""
    random = Random(1)
    words = [f"w{number}" for number in range(5_000)]
    about = httpx.get(url, trust_env=False).json()
    queries = [" ".join(random.sample(words, _TOKENS)) for _ in range(about["max_terms"] // 64)]
    body = json.dumps({"queries": queries, "topk": about["max_documents"] // len(queries), "return_scores": True})

    def ask(client: httpx.Client) -> None:
        if client.post(url + "/retrieve", content=body).status_code in (429, 503):
            stop.wait(0.2)

    _always(stop, clients, ask)


def vanishing_searches(url: str, token: str, stop: Any, clients: int) -> None:
    """Send a large request and leave before the answer."""
    body = json.dumps({"queries": [f"w{number} w{number + 1}" for number in range(4_000)], "topk": 4}).encode()

    def ask(_: httpx.Client) -> None:
        with _connected(url) as connection:
            head = f"POST /retrieve HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            connection.sendall(head + body)
            stop.wait(0.1)

    _always(stop, clients, ask)


def half_open(url: str, token: str, stop: Any, connections: int) -> None:
    """Keep many connections open that never send a whole request; reopen those that are closed."""
    parts = (
        b"",
        b"GET / HT",
        b"POST /retrieve HTTP/1.1\r\nhost: x\r\n",
        b'POST /retrieve HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n{"queries": [',
    )
    with selectors.DefaultSelector() as selector:
        number = 0
        while not stop.is_set():
            while len(selector.get_map()) < connections and not stop.is_set():
                number += 1
                with contextlib.suppress(OSError):
                    connection = _connected(url)
                    selector.register(connection, selectors.EVENT_READ)
                    connection.sendall(parts[number % len(parts)])
                if not number % 10:
                    break  # to attend to the others, which limits new ones to 200 a second
            for key, _ in selector.select(0):
                selector.unregister(key.fileobj)
                key.fileobj.close()  # pyright: ignore[reportAttributeAccessIssue]
            stop.wait(0.05)
        for key in list(selector.get_map().values()):
            key.fileobj.close()  # pyright: ignore[reportAttributeAccessIssue]


def heavy_sandboxes(url: str, token: str, stop: Any, clients: int) -> None:
    """Move large files, and run programs that print as much as they may."""
    backend = RemoteBackend(url, token)
    content = secrets.token_bytes(1 << 20) * LARGE_MB
    limits = SandboxLimits(wall_s=20, cpu_s=20, file_mb=64, disk_mb=128, output_bytes=8 << 20)
    noise = "import sys\nfor _ in range(16): sys.stdout.write('x' * (1 << 20))"

    def work(_: httpx.Client) -> None:
        with contextlib.suppress(AgentGymError), open_sandbox(SandboxSpec(limits=limits), backend=backend) as sandbox:
            while not stop.is_set():
                sandbox.write("large", content)
                sandbox.read("large", len(content))
                sandbox.exec(code=noise)

    _always(stop, clients, work)
    backend.close()


def vanishing_sandboxes(url: str, token: str, stop: Any, clients: int) -> None:
    """Open sandboxes, start something long in them and never come back."""

    def work(client: httpx.Client) -> None:
        client.headers["Authorization"] = f"Bearer {token}"
        opened = client.post(url + "/sandboxes", json={})
        if opened.status_code != 201:
            stop.wait(1)
            return
        header = {
            "op": "exec",
            "kind": "python",
            "argv": [],
            "cwd": ".",
            "env": {},
            "limits": SandboxLimits().to_dict(),
        }
        header["blobs"] = [14, 0]
        text = json.dumps(header).encode()
        frame = len(text).to_bytes(4, "big") + text + b"while 1: pass\n"
        with contextlib.suppress(httpx.TimeoutException):
            client.post(f"{url}/sandboxes/{opened.json()['id']}/frames", content=frame, timeout=0.2)
        stop.wait(2)

    _always(stop, clients, work)


def intruders(url: str, token: str, stop: Any, clients: int) -> None:
    """Send forbidden input: large bodies without the token, and bytes that are not HTTP."""
    bodies = (b"\0" * (1 << 20), b"[" * (1 << 20), b'{"queries": ["' + b"x" * (4 << 20))

    def ask(client: httpx.Client) -> None:
        for body in bodies:
            client.post(url + "/renew", content=body)
        with _connected(url) as connection:
            connection.sendall(secrets.token_bytes(4096))

    _always(stop, clients, ask)


def honest_searches(url: str, token: str, stop: Any, asked: Any) -> None:
    """Search like a trainer; record whether each request was answered, and how long that took."""
    random = Random(2)
    with contextlib.closing(SearchR1Client(url)) as client:

        def ask() -> None:
            queries = [f"w{random.randrange(5_000)} w{random.randrange(5_000)}" for _ in range(4)]
            if len(client.search_many(queries, 3)) != 4:
                raise AssertionError("an answer is missing")

        _noting(stop, asked, ask, 0.05)


def honest_sandboxes(url: str, token: str, stop: Any, asked: Any) -> None:
    """Open a sandbox, run a program in it, close it."""
    with contextlib.closing(RemoteBackend(url, token, busy_s=120)) as backend:

        def ask() -> None:
            with open_sandbox(SandboxSpec(limits=SandboxLimits(wall_s=60)), backend=backend) as sandbox:
                if sandbox.exec(code="print(6 * 7)").stdout != b"42\n":
                    raise AssertionError("a wrong answer")

        _noting(stop, asked, ask, 0.2)


def _noting(stop: Any, asked: Any, ask: Callable[[], None], pause_s: float) -> None:
    rows: list[tuple[bool, float, str]] = []
    while not stop.is_set():
        began, problem = time.monotonic(), ""
        try:
            ask()
        except (AgentGymError, AssertionError) as error:
            problem = f"{type(error).__name__}: {error}"[:200]
        rows.append((not problem, time.monotonic() - began, problem))
        stop.wait(pause_s)
    asked.put(rows)


def _always(stop: Any, clients: int, work: Callable[[httpx.Client], None]) -> None:
    def go_on() -> None:
        with httpx.Client(timeout=120, trust_env=False) as client:
            while not stop.is_set():
                with contextlib.suppress(httpx.HTTPError, OSError):
                    work(client)

    threads = [threading.Thread(target=go_on, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    stop.wait()
    for thread in threads:
        thread.join(5)


def _connected(url: str) -> socket.socket:
    place = urlsplit(url)
    return socket.create_connection((place.hostname, place.port), timeout=5)
