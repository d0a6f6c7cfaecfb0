"""`Eagerness`: whether to look again and again for what comes next, instead of sleeping until it comes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from agentgym.cores import cores

Found = TypeVar("Found")


class Eagerness:
    """Waits for what comes, with open eyes while it comes quickly.

    To be woken takes a process longer than a short step of an environment takes. But looking keeps a core busy. So it
    is done for moments only, while what was waited for last came within one, and where there is another core.

    Args:
        moment_s: Seconds to look at most.
    """

    def __init__(self, moment_s: float):
        self._moment_s = moment_s if cores() > 1 else 0.0
        self._is_eager = False

    def wait(self, look: Callable[[], Found | None], sleep: Callable[[], Found]) -> Found:
        """Return what came.

        Args:
            look: Returns what has come, or `None`, without waiting.
            sleep: Waits for it.
        """
        started = time.perf_counter()
        if self._is_eager:
            while time.perf_counter() - started < self._moment_s:
                if (found := look()) is not None:
                    return found
        found = sleep()
        self._is_eager = time.perf_counter() - started < self._moment_s
        return found
