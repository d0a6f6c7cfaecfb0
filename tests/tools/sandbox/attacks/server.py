"""A sandbox server on this machine, for attacks on the remote backend."""

from __future__ import annotations

import atexit
import functools
import os
import secrets
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


@functools.cache
def started() -> str:
    """Start a server once and set its address in the environment; return why that is impossible, or an empty string."""
    if missing := [name for name in ("starlette", "uvicorn", "httpx") if find_spec(name) is None]:
        return f"not installed: {', '.join(missing)}"
    token = secrets.token_hex(16)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "token").write_text(token)
        options = ["--token-file", str(Path(folder) / "token"), "--silent", str(SILENT_S), "--backend", "auto"]
        command = [sys.executable, "-c", _SERVE, "sandbox", *options]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(_stop, server)
        assert server.stdout is not None
        for line in server.stdout:
            if "Listening on" in line:
                os.environ[URL], os.environ[TOKEN] = line.split()[-1], token
                return ""
    return "the server of sandboxes did not start"


def _stop(server: subprocess.Popen[str]) -> None:
    server.terminate()
    server.wait()
