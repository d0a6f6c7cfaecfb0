"""A replacement for the module `time` that a test advances."""

from __future__ import annotations


class Clock:
    """The functions of `time` that sandboxes measure with."""

    def __init__(self) -> None:
        self.now = self.cpu = 0.0

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.cpu
