"""Remembering the results of functions."""

import functools


def make_key(args, kwargs, *, typed=False):
    """Return a hashable key for a call; with `typed`, 1 and 1.0 are different arguments."""
    key = (args, tuple(sorted(kwargs.items())))
    if typed:
        kinds = tuple(type(value).__name__ for value in args)
        named = tuple(type(value).__name__ for _, value in sorted(kwargs.items()))
        key += (kinds, named)
    return key


def memoize(cache, *, key=None, typed=False, skip=None):
    """Return a decorator that keeps a function's results in a cache.

    Args:
        cache: Where they are kept.
        key: Makes the key of a call from its arguments; all of them by default.
        typed: Tell equal arguments of different types apart.
        skip: Results for which this returns true are not kept.
    """

    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            name = key(*args, **kwargs) if key is not None else make_key(args, kwargs, typed=typed)
            full = (function.__qualname__, name)
            if full in cache:
                return cache[full]
            cache.stats.misses += 1
            result = function(*args, **kwargs)
            if skip is None or not skip(result):
                cache.put(full, result)
            return result

        def forget(*args, **kwargs):
            name = key(*args, **kwargs) if key is not None else make_key(args, kwargs, typed=typed)
            return cache.pop((function.__qualname__, name), None) is not None

        wrapper.cache = cache
        wrapper.forget = forget
        return wrapper

    return decorate
