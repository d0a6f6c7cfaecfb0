"""What all caches have in common."""

from larder.errors import CapacityError
from larder.stats import Stats


class _Missing:
    def __repr__(self):
        return "MISSING"

    def __bool__(self):
        return False


MISSING = _Missing()
"""Stands for 'there is no such entry', so that `None` can be stored."""


class Cache:
    """A mapping with a bounded total weight.

    Args:
        capacity: Largest total weight of the entries.
        weigh: Weight of an entry as a function of key and value; 1 for each if not given.
        on_evict: Called with key and value of each entry that is pushed out.
    """

    def __init__(self, capacity, *, weigh=None, on_evict=None):
        if capacity < 1:
            raise CapacityError(f"capacity must be at least 1, not {capacity!r}")
        self.capacity = capacity
        self.stats = Stats()
        self._weigh = weigh
        self._on_evict = on_evict
        self._weights = {}
        self._total = 0

    @property
    def weight(self):
        """Total weight of the entries."""
        return self._total

    def weigh(self, key, value):
        """Return the weight of an entry. Raises `CapacityError` if it can never fit."""
        weight = 1 if self._weigh is None else self._weigh(key, value)
        if weight < 0:
            raise CapacityError(f"weight of {key!r} is negative: {weight!r}")
        if weight > self.capacity:
            raise CapacityError(f"{key!r} weighs {weight}, more than the capacity of {self.capacity}")
        return weight

    def get(self, key, default=None):
        """Return the value of a key, or the default if there is none."""
        value = self._lookup(key)
        if value is MISSING:
            self.stats.misses += 1
            return default
        self.stats.hits += 1
        return value

    def __getitem__(self, key):
        value = self.get(key, MISSING)
        if value is MISSING:
            raise KeyError(key)
        return value

    def __setitem__(self, key, value):
        self.put(key, value)

    def __delitem__(self, key):
        if self.pop(key, MISSING) is MISSING:
            raise KeyError(key)

    def put(self, key, value):
        """Store a value; other entries go if there is no room for it."""
        weight = self.weigh(key, value)
        self._forget(key)
        while self._total + weight > self.capacity:
            self._evict_one()
        self._store(key, value)
        self._weights[key] = weight
        self._total += weight

    def pop(self, key, default=None):
        """Take an entry out and return its value, or the default if there is none."""
        value = self._lookup(key)
        if value is MISSING:
            return default
        self._forget(key)
        return value

    def get_or_compute(self, key, compute):
        """Return the value of a key; compute and store it first if there is none."""
        value = self.get(key, MISSING)
        if value is MISSING:
            value = compute()
            self.put(key, value)
        return value

    def clear(self):
        """Forget everything, without telling `on_evict`."""
        for key in list(self._weights):
            self._forget(key)

    def _evict_one(self):
        key, value = self._victim()
        self._forget(key)
        self.stats.evictions += 1
        if self._on_evict is not None:
            self._on_evict(key, value)

    def _forget(self, key):
        if key in self._weights:
            self._total -= self._weights.pop(key)
            self._remove(key)

    def __len__(self):
        return len(self._weights)

    def _lookup(self, key):
        raise NotImplementedError

    def _store(self, key, value):
        raise NotImplementedError

    def _remove(self, key):
        raise NotImplementedError

    def _victim(self):
        raise NotImplementedError
