"""How often a request is repeated."""

from __future__ import annotations

_MOST_TRIES = 100
"""More than a request needs that competes with hundreds of others for a few answers a minute."""


class Patience:
    """Counts the tries of one request.

    After a failure it is repeated `retries` times. A rate limit is no failure: most hold for a minute, and many servers
    do not say for how long. So it is waited for until `longest_wait_s` have passed without an answer to anybody.

    Args:
        retries: How often it is repeated at most; 0 means never.
        longest_wait_s: How long a rate limit is waited for.
        answered: How many requests the endpoint has answered before.
    """

    def __init__(self, retries: int, longest_wait_s: float, answered: int):
        self.tries = 0
        self._retries, self._longest_wait_s, self._answered = retries, longest_wait_s, answered
        self._failed = self._limited = 0
        self._waited_s = 0.0

    def lasts(self, answered: int, *, limited: bool) -> bool:
        """Count a try that gave no answer; return whether the request is repeated.

        Args:
            answered: How many requests the endpoint has answered until now.
            limited: Whether a rate limit was told.
        """
        self.tries += 1
        if not limited:
            self._failed += 1
            return self._failed <= self._retries
        self._limited += 1
        if answered > self._answered:
            self._answered, self._waited_s = answered, 0.0
        is_early = self._waited_s < self._longest_wait_s and self.tries < _MOST_TRIES
        return self._limited <= self._retries or (self._retries > 0 and is_early)

    def waited(self, seconds: float) -> None:
        """Count the seconds before a repetition."""
        self._waited_s += seconds
