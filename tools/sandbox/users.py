"""User ids for sandboxes when the driver is root: far from those of real users, and different for each."""

from __future__ import annotations

import os
import random
import threading
from functools import cache

_MAX_UID = 1 << 31
_lock = threading.Lock()
_used: set[int] = set()


def are_ours_to_give() -> bool:
    """Whether this process may run others as any user."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def fresh_user() -> int:
    """Return a user id that no sandbox of this process had, drawn from a range so large that others' differ too."""
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
    """Return the upper half of the user ids that this user namespace has."""
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
