"""Counting what a cache does."""

from dataclasses import dataclass


@dataclass
class Stats:
    """Counters of one cache."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    expirations: int = 0

    @property
    def lookups(self):
        """All lookups, successful or not."""
        return self.hits + self.misses

    @property
    def hit_rate(self):
        """Share of lookups that found something; 0.0 before the first lookup."""
        if self.lookups == 0:
            return 0.0
        return self.hits / self.lookups

    def reset(self):
        """Set all counters to zero."""
        self.hits = self.misses = self.evictions = self.expirations = 0

    def merged(self, other):
        """Return new stats with the counters of both."""
        return Stats(
            hits=self.hits + other.hits,
            misses=self.misses + other.misses,
            evictions=self.evictions + other.evictions,
            expirations=self.expirations + other.expirations,
        )
