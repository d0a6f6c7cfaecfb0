"""What can go wrong in a cache."""


class CacheError(Exception):
    """Base of all errors of this package."""


class CapacityError(CacheError, ValueError):
    """A capacity or weight that no cache can have."""


class ExpiredError(CacheError, KeyError):
    """The key was there, but its time is over."""
