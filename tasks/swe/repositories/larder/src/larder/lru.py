"""A cache that forgets what was not used for longest."""

from collections import OrderedDict

from larder.base import MISSING, Cache


class LRUCache(Cache):
    """Least recently used entries go first."""

    def __init__(self, capacity, *, weigh=None, on_evict=None):
        super().__init__(capacity, weigh=weigh, on_evict=on_evict)
        self._entries = OrderedDict()

    def peek(self, key, default=None):
        """Return the value of a key without counting it as a use."""
        return self._entries.get(key, default)

    def keys(self):
        """Return the keys, least recently used first."""
        return list(self._entries)

    def resize(self, capacity):
        """Change the capacity; what no longer fits goes."""
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {capacity!r}")
        self.capacity = capacity
        while self._total > self.capacity:
            self._evict_one()

    def __contains__(self, key):
        return key in self._entries

    def __iter__(self):
        return iter(self.keys())

    def _lookup(self, key):
        if key not in self._entries:
            return MISSING
        self._entries.move_to_end(key)
        return self._entries[key]

    def _store(self, key, value):
        self._entries[key] = value

    def _remove(self, key):
        del self._entries[key]

    def _victim(self):
        key = next(iter(self._entries))
        return key, self._entries[key]
