"""Errors of this package."""


class BusError(Exception):
    """Base of all errors of this package."""


class TopicError(BusError, ValueError):
    """A topic or pattern that cannot be."""


class HandlerError(BusError):
    """Handlers that failed, with what they raised.

    Attributes:
        event: The event.
        failures: (subscription, exception) pairs, in the order of the calls.
    """

    def __init__(self, event, failures):
        count = len(failures)
        super().__init__(f"{count} handler{'' if count == 1 else 's'} failed for {event.topic!r}")
        self.event = event
        self.failures = list(failures)
