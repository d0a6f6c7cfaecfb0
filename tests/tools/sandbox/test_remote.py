"""Sandboxes of a real server in another process work like local ones."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.tools.sandbox import (
    Ended,
    FileProblem,
    SandboxLimits,
    SandboxSpec,
    SandboxStartFailed,
    SandboxTier,
    open_sandbox,
)
from agentgym.tools.sandbox.remote import RemoteBackend
from tests.tools.sandbox.attacks.server import Server
from tests.waiting import HANG_S, eventually, is_running

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server("--sandboxes", "8")
    yield running
    running.stop()


@pytest.fixture
def backend(server: Server) -> Iterator[RemoteBackend]:
    client = RemoteBackend(server.url, server.token)
    yield client
    client.close()


def test_runs_sessions_files_limits_and_templates_work_as_in_a_local_sandbox(backend: RemoteBackend, tmp_path: Path):
    (tmp_path / "hello.txt").write_text("hello")
    spec = SandboxSpec(template=tmp_path, limits=SandboxLimits(output_bytes=100), environment={"WHO": "me"})
    with open_sandbox(spec, backend=backend) as sandbox:
        assert sandbox.tier is SandboxTier.REMOTE
        result = sandbox.exec(["bash", "-c", "echo `cat` $WHO; exit 3"], stdin="ab")
        assert (result.stdout, result.exit_code) == (b"ab me\n", 3)
        assert sandbox.exec(code="print('x' * 1000)").cut == (901, 0)
        assert sandbox.exec(code="while True: pass", limits=spec.limits.but(wall_s=0.5)).ended is Ended.TIMEOUT
        session = sandbox.python()
        session.run("x = 20")
        assert session.run("x + 1").stdout == b"21\n"
        sandbox.write("a/b", b"\x00\xff")
        assert [entry.path for entry in sandbox.list(depth=2)] == ["a", "a/b", "hello.txt"]
        assert sandbox.download() == {"a/b": b"\x00\xff", "hello.txt": b"hello"}
        with pytest.raises(FileProblem):
            sandbox.read("../../etc/passwd")
    with pytest.raises(UsageError, match="readable"):
        backend.start(SandboxSpec(readable=(tmp_path,)))


def test_a_wrong_token_and_a_missing_server_are_reported(server: Server):
    with contextlib.closing(RemoteBackend(server.url, "wrong" * 5)) as stranger:
        with pytest.raises(UsageError, match="token"):
            stranger.start(SandboxSpec())
        assert "token" in stranger.probe().why
    with (
        contextlib.closing(RemoteBackend("http://127.0.0.1:9", "x" * 20)) as nowhere,
        pytest.raises(SandboxStartFailed, match="ConnectError"),
    ):
        nowhere.start(SandboxSpec())


def test_a_stopped_servers_sandboxes_are_gone_and_reported_lost():
    server = Server()
    backend = RemoteBackend(server.url, server.token)
    sandbox = open_sandbox(backend=backend)
    mark = f"sleep 77.{os.getpid()}"
    sandbox.bash().run(f"{mark} >/dev/null 2>&1 & until grep -qa sleep /proc/$!/cmdline; do :; done")
    assert eventually(lambda: is_running(mark))
    server.stop()
    assert eventually(lambda: not is_running(mark))
    with pytest.raises(InfrastructureError):
        sandbox.exec(code="print(1)")
    assert not sandbox.health()
    sandbox.close()
    backend.close()


def test_a_dead_client_leaves_no_sandbox():
    server = Server("--silent", "1")
    program = f"""
import os
from agentgym.tools.sandbox import SandboxSpec
from agentgym.tools.sandbox.remote import RemoteBackend
RemoteBackend({server.url!r}, {server.token!r}).start(SandboxSpec())
os._exit(7)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=HANG_S).returncode == 7
    headers = {"Authorization": f"Bearer {server.token}"}
    assert eventually(lambda: httpx.get(server.url, headers=headers, trust_env=False).json()["open"] == 0)
    server.stop()


@pytest.mark.nightly
def test_an_idle_client_keeps_its_sandbox():
    server = Server("--silent", "1")
    backend = RemoteBackend(server.url, server.token)
    with open_sandbox(backend=backend) as sandbox:
        time.sleep(3)
        assert sandbox.exec(code="print(1)").stdout == b"1\n"
    backend.close()
    server.stop()
