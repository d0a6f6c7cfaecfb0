"""Waiting for other processes and threads, as long as a slow machine needs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

HANG_S = 480.0
"""Ends a test that hangs. No test may depend on it: a busy machine can be ten times slower."""


def eventually(true: Callable[[], bool], seconds: float = HANG_S) -> bool:
    """Whether a condition becomes true; the limit only ends the test."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def is_running(words: str) -> bool:
    """Whether a process of the machine has these words in its command line."""
    return words in subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True).stdout
