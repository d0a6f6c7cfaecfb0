"""Bounded in-memory caches."""

from larder.base import MISSING, Cache
from larder.errors import CacheError, CapacityError, ExpiredError
from larder.lru import LRUCache
from larder.memo import memoize
from larder.stats import Stats
from larder.ttl import TTLCache

__all__ = [
    "MISSING",
    "Cache",
    "CacheError",
    "CapacityError",
    "ExpiredError",
    "LRUCache",
    "Stats",
    "TTLCache",
    "memoize",
]
__version__ = "1.4.0"
