"""Fixtures for asynchronous runs of a model that is small enough to train within seconds."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

SERVER = Path(__file__).parent / "lora_server.py"


class Process:
    """A server of `lora_server.py`, which can be killed and started again at the same address."""

    def __init__(self, model: Path):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._command = [sys.executable, str(SERVER), str(model), str(port)]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command)
        while self._process.poll() is None:
            try:
                with urlopen(f"{self.url}/health", timeout=5):
                    return
            except (URLError, OSError):
                time.sleep(0.05)
        raise AssertionError("the server ended")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def serve() -> Iterator[Callable[[Path], Process]]:
    """Starts servers of checkpoints."""
    processes: list[Process] = []

    def make(model: Path) -> Process:
        processes.append(Process(model))
        return processes[-1]

    yield make
    for process in processes:
        process.kill()
