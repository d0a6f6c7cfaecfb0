"""Programs in a terminal of their own, with simulated typing."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence

_PROLOGUE = "import os; os.setsid(); os.close(os.open(os.ttyname(0), os.O_RDWR))\n"
"""Makes the terminal the program's own, so that its Ctrl-C reaches only this program."""


def at_terminal(program: str, arguments: Sequence[str], *typed: bytes) -> tuple[str, int]:
    """Run a Python program in a terminal of its own and type when it prompts; return the screen and the exit code."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", _PROLOGUE + program, *arguments]
    environment = {**os.environ, "TERM": "dumb", "PYTHON_COLORS": "0"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as child:
        try:
            os.close(theirs)
            screen = _typed(ours, typed)
            return screen.decode(), child.wait()
        finally:
            child.kill()
            os.close(ours)


def _typed(terminal: int, typed: Sequence[bytes]) -> bytes:
    """Type a line at each prompt until the lines run out; return the whole output."""
    screen, prompts, lines = b"", 0, iter(typed)
    while output := _shown(terminal):
        screen += output
        if (count := len(re.findall(rb"^> ", screen.replace(b"\r", b""), re.MULTILINE))) > prompts:
            prompts = count
            os.write(terminal, next(lines, b""))
    return screen


def _shown(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # the last user has left
        return b""
