"""The bus."""

from collections import deque

from signalbus.errors import HandlerError
from signalbus.event import Event
from signalbus.history import History
from signalbus.subscription import Subscription
from signalbus.topics import check_topic


class Bus:
    """Takes events to the handlers that want them.

    Events that handlers emit wait until the current one has been delivered.

    Args:
        history: How many events are kept.
        raise_errors: Whether failing handlers are reported by `HandlerError` after all were called.
    """

    def __init__(self, *, history=100, raise_errors=True):
        self.history = History(history)
        self.raise_errors = raise_errors
        self._subscriptions = []
        self._count = 0
        self._made = 0
        self._waiting = deque()
        self._delivering = False

    def subscribe(self, pattern, handler, *, priority=0, limit=None, where=None):
        """Have a handler called for events and return the subscription."""
        check_topic(pattern, pattern=True)
        self._made += 1
        subscription = Subscription(pattern, handler, priority=priority, limit=limit, where=where, order=self._made)
        self._subscriptions.append(subscription)
        self._subscriptions.sort(key=lambda item: item.sort_key)
        return subscription

    def on(self, pattern, **options):
        """Return a decorator that subscribes a function."""

        def decorate(handler):
            self.subscribe(pattern, handler, **options)
            return handler

        return decorate

    def once(self, pattern, handler, **options):
        """Subscribe a handler for one event only."""
        return self.subscribe(pattern, handler, limit=1, **options)

    def unsubscribe(self, handler):
        """End all subscriptions of a handler and return how many that were."""
        ended = [item for item in self._subscriptions if item.handler == handler and item.cancel()]
        self._clean()
        return len(ended)

    def handlers(self, topic):
        """Return the handlers that an event of this topic would reach, in order."""
        event = Event(topic)
        return [item.handler for item in self._subscriptions if item.wants(event)]

    def emit(self, topic, /, **data):
        """Send an event and return it; after its delivery, unless one is going on. Raises `HandlerError`."""
        event = self._new_event(topic, data)
        self._waiting.append(event)
        if self._delivering:
            return event
        self._delivering = True
        try:
            while self._waiting:
                self._deliver(self._waiting.popleft())
        finally:
            self._delivering = False
            self._waiting.clear()
        return event

    def replay(self, handler, pattern="#", *, since=0):
        """Call a handler for events of the past and return how many that were."""
        events = self.history.select(pattern, since=since)
        for event in events:
            handler(event)
        return len(events)

    def _new_event(self, topic, data):
        check_topic(topic)
        self._count += 1
        event = Event(topic, data, self._count)
        self.history.add(event)
        return event

    def _deliver(self, event):
        failures = []
        for subscription in list(self._subscriptions):
            if event.stopped:
                break
            if not subscription.wants(event):
                continue
            subscription.count_call()
            try:
                result = subscription.handler(event)
            except Exception as error:
                failures.append((subscription, error))
                continue
            if result is not None:
                event.results.append(result)
        self._clean()
        if failures and self.raise_errors:
            raise HandlerError(event, failures)

    def _clean(self):
        self._subscriptions = [item for item in self._subscriptions if item.active]

    def __len__(self):
        return len(self._subscriptions)
