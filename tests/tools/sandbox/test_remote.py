"""Sandboxes of a real server in another process work like local ones."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.tools.sandbox import (
    Ended,
    FileProblem,
    Sandbox,
    SandboxLimits,
    SandboxSpec,
    SandboxStartFailed,
    SandboxTier,
    backends,
    open_sandbox,
    open_sandbox_async,
)
from agentgym.tools.sandbox.remote import RemoteBackend
from tests.waiting import eventually, is_running

pytestmark = pytest.mark.real


class Server:
    """`agentgym serve sandbox` in a separate process."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.token_file = folder / "token"
        command = [sys.executable, "-m", "agentgym", "serve", "sandbox", "--token-file", str(self.token_file), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.lines = [""]
        while not self.lines[-1].startswith("Listening on "):
            line = self.process.stdout.readline()
            assert line, f"the server ended: {self.lines}"
            self.lines.append(line.strip())
        self.url = self.lines[-1].removeprefix("Listening on ")
        self.token = self.token_file.read_text().strip()

    def number_of_sandboxes(self) -> int:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.get(self.url, headers=headers, trust_env=False).json()["open"]

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(30)
        assert self.process.stdout
        self.process.stdout.close()
        return code


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("server"), "--sandboxes", "8")
    yield running
    running.stop()


@pytest.fixture
def backend(server: Server) -> Iterator[RemoteBackend]:
    client = RemoteBackend(server.url, server.token)
    yield client
    client.close()


def opened(backend: RemoteBackend, spec: SandboxSpec | None = None) -> Sandbox:
    return open_sandbox(spec, backend=backend)


def test_runs_sessions_and_files_work_as_in_a_local_sandbox(backend: RemoteBackend):
    with opened(backend) as sandbox:
        result = sandbox.exec(code="import sys; print(sys.stdin.read() * 2); sys.exit(3)", stdin="ab")
        assert (result.stdout, result.exit_code) == (b"abab\n", 3)
        assert sandbox.exec(["bash", "-c", "echo x >&2; exit 1"]).stderr == b"x\n"
        session = sandbox.python()
        session.run("x = 20")
        assert session.run("x + 1").stdout == b"21\n"
        sandbox.write("a/b", b"\x00\xff")
        assert sandbox.read("a/b") == b"\x00\xff"
        assert [entry.path for entry in sandbox.list(depth=2)] == ["a", "a/b"]
        assert sandbox.download() == {"a/b": b"\x00\xff"}
        with pytest.raises(FileProblem):
            sandbox.read("../../etc/passwd")


def test_asynchronous_sandboxes_work_concurrently(backend: RemoteBackend):
    async def run(number: int) -> bytes:
        async with await open_sandbox_async(backend=backend) as sandbox:
            return (await sandbox.exec(code=f"print({number})")).stdout

    async def all_of_them() -> list[bytes]:
        return await asyncio.gather(*(run(number) for number in range(4)))

    assert asyncio.run(all_of_them()) == [b"%d\n" % number for number in range(4)]


def test_limits_and_environment_reach_the_server(backend: RemoteBackend):
    spec = SandboxSpec(limits=SandboxLimits(wall_s=0.5), environment={"WHO": "me"})
    with opened(backend, spec) as sandbox:
        assert sandbox.exec(code="import os; print(os.environ['WHO'])").stdout == b"me\n"
        assert sandbox.exec(code="while True: pass").ended is Ended.TIMEOUT
        assert sandbox.exec(code="print(1)").ok


def test_a_template_is_uploaded(backend: RemoteBackend, tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "hello.txt").write_text("hello")
    with opened(backend, SandboxSpec(template=tmp_path)) as sandbox:
        assert sandbox.read("data/hello.txt") == b"hello"


def test_the_servers_tier_and_notes_are_reported(backend: RemoteBackend):
    probe = backend.probe()
    assert probe.works
    assert "offers" in probe.why
    tiers = (SandboxTier.NAMESPACES, SandboxTier.LANDLOCK)
    local = next(result for result in backends() if result.works and result.tier in tiers)
    assert str(local.tier) in probe.why
    assert probe.protections == local.protections
    with opened(backend) as sandbox:
        assert sandbox.tier is SandboxTier.REMOTE
        assert str(local.tier) in sandbox.notes


def test_opening_on_a_full_server_is_retried_for_a_while(server: Server, backend: RemoteBackend):
    sandboxes = [opened(backend) for _ in range(8)]
    with (
        contextlib.closing(RemoteBackend(server.url, server.token, busy_s=0.5)) as hasty,
        pytest.raises(SandboxStartFailed, match="8 sandboxes"),
    ):
        opened(hasty)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(opened, backend)
        sandboxes.pop().close()
        sandboxes.append(waiting.result())
    for sandbox in sandboxes:
        sandbox.close()


def test_preloaded_modules_and_readable_folders_are_refused(backend: RemoteBackend, tmp_path: Path):
    for spec, name in ((SandboxSpec(preload=("json",)), "preload"), (SandboxSpec(readable=(tmp_path,)), "readable")):
        with pytest.raises(UsageError, match=name):
            backend.start(spec)


def test_a_wrong_token_and_a_missing_server_are_reported(server: Server):
    with contextlib.closing(RemoteBackend(server.url, "wrong" * 5)) as stranger:
        with pytest.raises(UsageError, match="token"):
            stranger.start(SandboxSpec())
        probe = stranger.probe()
        assert not probe.works
        assert "token" in probe.why
    with (
        contextlib.closing(RemoteBackend("http://127.0.0.1:9", "x" * 20)) as nowhere,
        pytest.raises(SandboxStartFailed, match="ConnectError"),
    ):
        nowhere.start(SandboxSpec())


def test_a_stopped_servers_sandboxes_are_gone_and_reported_lost(tmp_path: Path):
    server = Server(tmp_path)
    backend = RemoteBackend(server.url, server.token)
    sandbox = opened(backend)
    mark = f"sleep 77.{os.getpid()}"
    sandbox.bash().run(f"{mark} >/dev/null 2>&1 & until grep -qa sleep /proc/$!/cmdline; do :; done")
    assert eventually(lambda: is_running(mark))
    assert server.stop() == 0
    assert eventually(lambda: not is_running(mark))
    with pytest.raises(InfrastructureError):
        sandbox.exec(code="print(1)")
    assert not sandbox.health()
    sandbox.close()
    backend.close()


def test_a_dead_client_leaves_no_sandbox(tmp_path: Path):
    server = Server(tmp_path, "--silent", "1")
    program = f"""
import os
from agentgym.tools.sandbox import SandboxSpec
from agentgym.tools.sandbox.remote import RemoteBackend
backend = RemoteBackend({server.url!r}, {server.token!r})
backend.start(SandboxSpec())
print("opened", flush=True)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60)
    assert done.stdout == b"opened\n"
    assert eventually(lambda: server.number_of_sandboxes() == 0)
    server.stop()


@pytest.mark.nightly
def test_an_idle_client_keeps_its_sandbox(tmp_path: Path):
    server = Server(tmp_path, "--silent", "1")
    backend = RemoteBackend(server.url, server.token)
    with opened(backend) as sandbox:
        time.sleep(3)
        assert sandbox.exec(code="print(1)").stdout == b"1\n"
    backend.close()
    server.stop()


def test_the_token_file_is_private_and_the_token_not_printed(server: Server):
    assert server.token_file.stat().st_mode & 0o777 == 0o600
    assert len(server.token) >= 32
    assert server.token not in " ".join(server.lines)


def test_the_client_keeps_few_idle_connections(server: Server):
    client = RemoteBackend(server.url, server.token)
    with ThreadPoolExecutor(8) as threads:
        sandboxes = list(threads.map(lambda _: opened(client), range(8)))
        assert all(threads.map(lambda sandbox: sandbox.health(), sandboxes))
    port = int(server.url.rpartition(":")[2])
    assert 0 < connections_to(port) <= 4
    for sandbox in sandboxes:
        sandbox.close()
    client.close()


def connections_to(port: int) -> int:
    """Return the number of established connections to a port, counted at the client's end."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)
