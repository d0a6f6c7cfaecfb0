"""Uids for sandboxes when the driver is root: far from those of real users, and unique."""

from __future__ import annotations

import os
import random
import threading
from functools import cache

_MAX_UID = 1 << 31
_lock = threading.Lock()
_used: set[int] = set()


def can_assign() -> bool:
    """Whether this process may start processes as any user."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def fresh_user() -> int:
    """Return a uid unused by this process, from a range so large that other processes' uids differ too."""
    first, last = _range()
    source = random.SystemRandom()
    with _lock:
        for _ in range(1000):
            uid = source.randint(first, last)
            if uid not in _used:
                _used.add(uid)
                return uid
    return last


@cache
def _range() -> tuple[int, int]:
    """Return the upper half of the uids in this user namespace."""
    largest = (0, _MAX_UID)
    try:
        with open("/proc/self/uid_map") as file:
            extents = [(int(words[0]), int(words[2])) for words in map(str.split, file)]
    except (OSError, ValueError, IndexError):
        extents = []
    if extents:
        start, size = max(extents, key=lambda extent: extent[1])
        largest = (start, min(size, _MAX_UID - start))
    start, size = largest
    return start + size // 2, start + size - 2
