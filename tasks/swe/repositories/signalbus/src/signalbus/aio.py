"""The bus for asyncio."""

import asyncio
import inspect

from signalbus.bus import Bus
from signalbus.errors import HandlerError


class AsyncBus(Bus):
    """Calls plain and async handlers; those of one priority run at the same time.

    Args:
        timeout: Seconds after which an async handler has failed; no limit if `None`.
    """

    def __init__(self, *, timeout=None, **options):
        super().__init__(**options)
        self.timeout = timeout

    async def emit(self, topic, /, **data):
        """Send an event, wait for all handlers, and return it. Raises `HandlerError`."""
        event = self._new_event(topic, data)
        failures = []
        wanted = [item for item in self._subscriptions if item.wants(event)]
        for priority in sorted({item.priority for item in wanted}, reverse=True):
            if event.stopped:
                break
            together = [item for item in wanted if item.priority == priority]
            outcomes = await asyncio.gather(*(self._call(item, event) for item in together), return_exceptions=True)
            for subscription, outcome in zip(together, outcomes):
                if isinstance(outcome, Exception):
                    failures.append((subscription, outcome))
                elif outcome is not None:
                    event.results.append(outcome)
        self._clean()
        if failures and self.raise_errors:
            raise HandlerError(event, failures)
        return event

    async def wait_for(self, pattern, *, where=None, timeout=None):
        """Wait for the next event that fits and return it. Raises `TimeoutError`."""
        future = asyncio.get_running_loop().create_future()
        subscription = self.once(pattern, lambda event: future.set_result(event), where=where)
        try:
            return await asyncio.wait_for(future, timeout)
        finally:
            subscription.cancel()
            self._clean()

    async def _call(self, subscription, event):
        subscription.count_call()
        result = subscription.handler(event)
        if inspect.isawaitable(result):
            result = await asyncio.wait_for(result, self.timeout)
        return result
