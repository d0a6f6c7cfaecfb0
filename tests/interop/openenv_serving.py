"""Runs a server of OpenEnv for tests."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.waiting import eventually


@contextmanager
def serving(kind: str) -> Iterator[str]:
    """Run a server of the package itself, on a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-m", "tests.interop.openenv_server", kind, str(port)])
    try:
        assert eventually(lambda: _answers(port))
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
