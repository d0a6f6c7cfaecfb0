"""A handler's registration at a bus."""

from signalbus.topics import matches, specificity


class Subscription:
    """Who is called for which events.

    Args:
        pattern: Of the topics.
        handler: Called with the event.
        priority: Higher ones are called first.
        limit: After so many calls the subscription ends; never if `None`.
        where: Called with the event; the handler is skipped if it returns something false.
        order: Position among the subscriptions of the bus.
    """

    def __init__(self, pattern, handler, *, priority=0, limit=None, where=None, order=0):
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit!r}")
        self.pattern = pattern
        self.handler = handler
        self.priority = priority
        self.where = where
        self.order = order
        self.calls = 0
        self.active = True
        self.paused = False
        self._limit = limit

    def wants(self, event):
        """Whether the handler is to be called for an event."""
        if not self.active or self.paused or not matches(self.pattern, event.topic):
            return False
        return self.where is None or bool(self.where(event))

    def count_call(self):
        """Note a call; the subscription ends with the last one that it allows."""
        self.calls += 1
        if self._limit is not None and self.calls >= self._limit:
            self.active = False

    def cancel(self):
        """End the subscription. Returns whether it was active."""
        was = self.active
        self.active = False
        return was

    def pause(self):
        """Skip events until `resume`."""
        self.paused = True

    def resume(self):
        """Take events again."""
        self.paused = False

    @property
    def sort_key(self):
        """Subscriptions are called in this order: priority, then exactness of the pattern, then age."""
        exact, stars, hashes = specificity(self.pattern)
        return (-self.priority, -exact, -stars, -hashes, self.order)
