"""A sandbox server on this machine, for attacks on the remote backend."""

from __future__ import annotations

import atexit
import functools
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

URL, TOKEN = "AGENTGYM_SANDBOX_URL", "AGENTGYM_SANDBOX_TOKEN"

_SERVE = """
import os, signal, threading

def end_with_the_tests():
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=end_with_the_tests, daemon=True).start()
from agentgym.tools.serving.command import serve_app

serve_app()
"""
"""A server that ends with the test process, even if that is killed: its stdin closes then."""

SILENT_S = 4
"""Seconds after which the server closes the sandboxes of a silent client."""


class Server:
    """`agentgym serve sandbox` in a separate process."""

    def __init__(self, *options: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            token_file = Path(folder, "token")
            command = [sys.executable, "-c", _SERVE, "sandbox", "--token-file", str(token_file), *options]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert self.process.stdout
            line = next((line for line in self.process.stdout if line.startswith("Listening on ")), "")
            assert line, "the server of sandboxes did not start"
            self.url, self.token = line.split()[-1], token_file.read_text().strip()

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate()


@functools.cache
def started() -> str:
    """Start a server once and set its address in the environment; return why that is impossible, or an empty string."""
    if missing := [name for name in ("starlette", "uvicorn", "httpx") if find_spec(name) is None]:
        return f"not installed: {', '.join(missing)}"
    server = Server("--silent", str(SILENT_S), "--backend", "auto")
    atexit.register(server.stop)
    os.environ[URL], os.environ[TOKEN] = server.url, server.token
    return ""
