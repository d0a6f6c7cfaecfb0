"""A cache whose entries are good for a limited time."""

import heapq
import time

from larder.base import MISSING, Cache
from larder.errors import ExpiredError


class TTLCache(Cache):
    """Entries expire; when room is needed, those that expire soonest go first.

    Args:
        capacity: Largest total weight of the entries.
        ttl: Seconds for which an entry is good.
        clock: Returns the time in seconds; to be replaced in tests.
        sliding: Whether a lookup makes an entry good for another `ttl` seconds.
    """

    def __init__(self, capacity, ttl, *, clock=time.monotonic, sliding=False, weigh=None, on_evict=None):
        super().__init__(capacity, weigh=weigh, on_evict=on_evict)
        if ttl <= 0:
            raise ValueError(f"ttl must be positive, not {ttl!r}")
        self.ttl = ttl
        self.sliding = sliding
        self._clock = clock
        self._values = {}
        self._deadlines = {}
        self._queue = []

    def put(self, key, value, ttl=None):
        """Store a value, with a time to live of its own if given."""
        self.expire()
        super().put(key, value)
        if ttl is not None:
            self._set_deadline(key, ttl)

    def remaining(self, key):
        """Return for how many more seconds an entry is good. Raises `KeyError` or `ExpiredError`."""
        if key not in self._deadlines:
            raise KeyError(key)
        left = self._deadlines[key] - self._clock()
        if left <= 0:
            raise ExpiredError(key)
        return left

    def touch(self, key):
        """Make an entry good for a full `ttl` again. Returns whether there was one."""
        if self._lookup(key) is MISSING:
            return False
        self._set_deadline(key, self.ttl)
        return True

    def expire(self):
        """Forget what is over and return how many entries that were."""
        now = self._clock()
        count = 0
        while self._queue and self._queue[0][0] <= now:
            deadline, _, key = heapq.heappop(self._queue)
            if self._deadlines.get(key) == deadline:
                self._forget(key)
                self.stats.expirations += 1
                count += 1
        return count

    def items(self):
        """Return (key, value) pairs that are still good, soonest to expire first."""
        self.expire()
        ordered = sorted(self._deadlines.items(), key=lambda item: item[1])
        return [(key, self._values[key]) for key, _ in ordered]

    def __contains__(self, key):
        return key in self._values and self._deadlines[key] > self._clock()

    def _lookup(self, key):
        if key not in self:
            self.expire()
            return MISSING
        if self.sliding:
            self._set_deadline(key, self.ttl)
        return self._values[key]

    def _set_deadline(self, key, ttl):
        deadline = self._clock() + ttl
        self._deadlines[key] = deadline
        heapq.heappush(self._queue, (deadline, id(key), key))

    def _store(self, key, value):
        self._values[key] = value
        self._set_deadline(key, self.ttl)

    def _remove(self, key):
        del self._values[key]
        del self._deadlines[key]

    def _victim(self):
        key = min(self._deadlines, key=self._deadlines.__getitem__)
        return key, self._values[key]
