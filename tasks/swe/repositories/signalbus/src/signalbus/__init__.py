"""An event bus."""

from signalbus.aio import AsyncBus
from signalbus.bus import Bus
from signalbus.errors import BusError, HandlerError, TopicError
from signalbus.event import Event
from signalbus.history import History
from signalbus.subscription import Subscription
from signalbus.throttle import Debounce, Throttle
from signalbus.topics import check_topic, matches, specificity

__all__ = [
    "AsyncBus",
    "Bus",
    "BusError",
    "Debounce",
    "Event",
    "HandlerError",
    "History",
    "Subscription",
    "Throttle",
    "TopicError",
    "check_topic",
    "matches",
    "specificity",
]
__version__ = "1.0.4"
