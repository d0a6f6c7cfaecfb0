"""A clock that a test sets forward, in place of the module `time`."""

from __future__ import annotations


class Clock:
    """Has the functions of `time` that the sandbox measures with."""

    def __init__(self) -> None:
        self.now = self.cpu = 0.0

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.cpu
