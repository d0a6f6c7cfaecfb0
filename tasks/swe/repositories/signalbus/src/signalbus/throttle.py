"""Handlers that are called less often than events come."""

import time


class Throttle:
    """Passes one event on, then none for an interval.

    Args:
        handler: Called with the events that pass.
        interval: Seconds.
        key: Makes a key of an event; each key has an interval of its own.
        clock: Returns the time in seconds.
    """

    def __init__(self, handler, interval, *, key=None, clock=time.monotonic):
        self._handler = handler
        self._interval = interval
        self._key = key or (lambda event: None)
        self._clock = clock
        self._last = {}
        self.suppressed = 0

    def __call__(self, event):
        key, now = self._key(event), self._clock()
        last = self._last.get(key)
        if last is not None and now - last < self._interval:
            self.suppressed += 1
            return None
        self._last[key] = now
        return self._handler(event)


class Debounce:
    """Keeps the newest event until none has come for an interval; `flush` passes it on.

    Args:
        handler: Called with the event.
        interval: Seconds of quiet.
        clock: Returns the time in seconds.
    """

    def __init__(self, handler, interval, *, clock=time.monotonic):
        self._handler = handler
        self._interval = interval
        self._clock = clock
        self._pending = None
        self._since = None

    def __call__(self, event):
        self.flush()
        self._pending = event
        self._since = self._clock()

    def flush(self, *, force=False):
        """Pass the event on if it has been quiet long enough. Returns whether that was so."""
        if self._pending is None:
            return False
        if not force and self._clock() - self._since < self._interval:
            return False
        event, self._pending = self._pending, None
        self._handler(event)
        return True
