"""A real vLLM server of a checkpoint, on loopback and on the CPU."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from tests.waiting import HANG_S

RUN = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "TORCHDYNAMO_DISABLE": "1",
    "OMP_NUM_THREADS": "2",
}
"""Environment variables that make vLLM start quickly and share the processor."""


@contextmanager
def served(folder: Path, log: Path, name: str | None = None) -> Iterator[str]:
    """Serve a checkpoint; yield the server's address.

    Args:
        folder: The checkpoint.
        log: File for the server's output.
        name: The model's name for clients; by default the folder's path.
    """
    port = _free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), "--port", str(port)]
    command += ["--host", "127.0.0.1", "--dtype", "float32", "--enforce-eager", "--no-enable-chunked-prefill"]
    command += ["--logprobs-mode", "processed_logprobs", "--max-num-seqs", "16", "--generation-config", "vllm"]
    command += [] if name is None else ["--served-model-name", name, str(folder)]
    with log.open("wb") as out:
        server = subprocess.Popen(command, env=os.environ | RUN, stdout=out, stderr=out)
    try:
        _await_health(server, f"http://127.0.0.1:{port}/health", log)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(HANG_S)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _await_health(server: Any, url: str, log: Path) -> None:
    while server.poll() is None:
        try:
            with urlopen(url, timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(log.read_text(errors="replace")[-4_000:])
