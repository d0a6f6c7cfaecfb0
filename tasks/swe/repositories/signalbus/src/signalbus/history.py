"""The last events of a bus."""

from collections import Counter, deque

from signalbus.topics import matches


class History:
    """Keeps events, at most `size` of them."""

    def __init__(self, size=100):
        if size < 0:
            raise ValueError(f"size must not be negative: {size!r}")
        self._events = deque(maxlen=size)
        self.dropped = 0

    def add(self, event):
        """Keep an event; the oldest one goes if there is no room."""
        if len(self._events) == self._events.maxlen:
            self.dropped += 1
        self._events.append(event)

    def select(self, pattern="#", *, since=0, last=None):
        """Return events in order.

        Args:
            pattern: Of their topics.
            since: Only events with a higher number.
            last: At most so many, the newest ones.
        """
        found = [event for event in self._events if event.number > since and matches(pattern, event.topic)]
        if last is not None:
            found = found[max(0, len(found) - last) :]
        return found

    def counts(self, depth=None):
        """Return how many events there are by topic, or by its first `depth` words."""
        topics = (event.topic.split(".") for event in self._events)
        return dict(Counter(".".join(words if depth is None else words[:depth]) for words in topics))

    def __len__(self):
        return len(self._events)
