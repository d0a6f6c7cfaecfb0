"""A server of environments in a thread, raw clients for it, and environments that record the server's actions."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

from agentgym import Env, InfrastructureError, Reason, Task, TaskList, ToolCall, ToolError, tool
from agentgym.core.engine.steps import Solution
from agentgym.interop.served.remote_env import RemoteEnv
from agentgym.interop.served.wire import PROTOCOL, STREAM, decoded, encoded
from agentgym.tools.env_server.app import limits_of, make_app
from agentgym.tools.env_server.offer import EnvOffer, EnvServing
from agentgym.tools.env_server.sessions import EnvSessions
from tests.serving_cases import HANG_S, Running

TOKEN = "a token of at least sixteen characters".replace(" ", "-")
CANARY = "gold-4e1f9a"
ROOT = Path(__file__).parent.parent
HELD = "tests.served_envs:HeldEnv"


def _held_task(split: str) -> Task:
    secret = f"{CANARY}-{split}"
    return Task(f"held/{split}/0", split, f"Hold on, {split}.", data={"secret": secret}, gold={"word": secret})


class HeldEnv(Env):
    """Its tools wait for a test, break, or count; class attributes record their effects."""

    max_turns = 50
    made = 0
    closed = 0
    may_go_on = threading.Event()
    is_waiting = threading.Event()

    @classmethod
    def forget(cls) -> None:
        cls.made = cls.closed = 0
        for event in (cls.may_go_on, cls.is_waiting):
            event.clear()

    @classmethod
    def default_tasks(cls) -> TaskList:
        return TaskList([_held_task(split) for split in ("train", "test")])

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        type(self).made += 1
        self.count = 0

    def start(self, task: Task) -> None:
        self.count = 0

    @tool
    def add(self) -> str:
        """Count one more."""
        self.count += 1
        return f"count {self.count}"

    @tool
    def wait(self) -> str:
        """Wait until the test lets it go on."""
        self.is_waiting.set()
        self.may_go_on.wait(HANG_S)
        return "waited"

    @tool
    def misuse(self) -> str:
        """Tell the model of a mistake."""
        raise ToolError("not like this")

    @tool
    def fail(self) -> str:
        """Break."""
        raise InfrastructureError("the disk is full")

    @tool
    def exit(self) -> str:
        """End the interpreter, if it can."""
        raise SystemExit(3)

    @tool
    def done(self) -> str:
        """End the episode."""
        self.reward("outcome", 1.0)
        self.finish(Reason.SOLVED)
        return "done"

    def solution(self, task: Task) -> Solution:
        yield ToolCall("done", {})

    def release(self) -> None:
        type(self).closed += 1


class Served(Running):
    """A server of environments in a thread."""

    def __init__(self, *envs: str, settings: dict[str, Any] | None = None, reveal: bool = False, **serving: Any):
        limits = EnvServing(TOKEN, **serving)
        app = make_app(EnvOffer(envs, settings or {}, is_revealed=reveal), limits)
        self.sessions: EnvSessions = app.state.sessions
        super().__init__(app, **limits_of(limits))
        self.client.headers["Authorization"] = f"Bearer {TOKEN}"

    def env(self, url: str | None = None, **arguments: Any) -> RemoteEnv:
        return RemoteEnv(url or self.url, **{"token": TOKEN, "reconnect_s": 5.0, **arguments})

    def metric(self, name: str) -> float:
        lines = self.client.get("/metrics").text.splitlines()
        return next((float(line.split()[-1]) for line in lines if line.startswith(f"{name} ")), 0.0)


@contextmanager
def served(*envs: str, **options: Any) -> Iterator[Served]:
    server = Served(*envs, **options)
    try:
        yield server
    finally:
        HeldEnv.may_go_on.set()
        server.stop()


class RawStream:
    """A raw WebSocket of an independent client library."""

    def __init__(self, port: int, token: str | None = TOKEN):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"ws://127.0.0.1:{port}{STREAM}"
        self.socket: ClientConnection = connect(
            url, additional_headers=headers, compression=None, open_timeout=HANG_S, close_timeout=1, max_size=None
        ).__enter__()
        self.replies: list[str] = []

    def __enter__(self) -> RawStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, op: str, **content: Any) -> dict[str, Any]:
        self.socket.send(encoded({"id": 1, "op": op, **content}), text=True)
        return self.reply()

    def exchange(self, sent: str) -> str:
        """Send text, and return the reply."""
        self.socket.send(sent)
        return str(self.socket.recv(HANG_S))

    def reply(self) -> dict[str, Any]:
        text = str(self.socket.recv(HANG_S))
        self.replies.append(text)
        return decoded(text.encode())

    def open(self, **content: Any) -> str:
        return self.ask("open", protocol=PROTOCOL, **content)["result"]["session"]


class Wire:
    """A TCP relay between a client and a server, which the test breaks."""

    def __init__(self, port: int):
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.loses_reply_after: bytes | None = None
        """Breaks the connection instead of passing on the first reply after a request with these bytes."""
        self.connections = 0
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                self.connections += 1
                self._pairs.append((client, server))
                lost = threading.Event()
                threading.Thread(target=self._requests, args=(client, server, lost), daemon=True).start()
                threading.Thread(target=self._replies, args=(client, server, lost), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                if self.loses_reply_after is not None and self.loses_reply_after in _unmasked(data):
                    self.loses_reply_after = None
                    lost.set()
                server.sendall(data)
        _end(server)

    def _replies(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                if lost.is_set():
                    break
                client.sendall(data)
        _end(client)
        _end(server)

    def cut(self) -> None:
        """Break all connections."""
        for pair in self._pairs:
            for end in pair:
                _end(end)
        self._pairs.clear()

    def close(self) -> None:
        self._listening.close()
        self.cut()


@contextmanager
def wire(port: int) -> Iterator[Wire]:
    wire = Wire(port)
    try:
        yield wire
    finally:
        wire.close()


def _unmasked(data: bytes) -> bytes:
    """Return the payload of a masked frame of medium size, if this is one."""
    from websockets.utils import apply_mask

    at = {126: 4}.get(data[1] & 127, 2)
    return apply_mask(data[at + 4 :], data[at : at + 4])


def _end(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """An assistant message with one call."""
    return {"role": "assistant", "content": "", "tool_calls": [ToolCall(name, arguments, "c").to_dict()]}


def post(server: Served, path: str, **content: Any) -> httpx.Response:
    return server.client.post(path, json=content)


@contextmanager
def served_process(
    *envs: str, options: Sequence[str] = (), program: str = "from agentgym.cli.app import main; main()"
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`agentgym serve env` in a process of its own, and its address."""
    with tempfile.TemporaryDirectory() as folder:
        token = Path(folder) / "token"
        token.write_text(TOKEN, encoding="utf-8")
        token.chmod(0o600)
        command = [sys.executable, "-c", program, "serve", "env", *envs, "--token-file", str(token), *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            yield next(line.split()[-1] for line in lines if line.startswith("Listening on ")), process
        finally:
            process.terminate()
            process.communicate(timeout=HANG_S)
