"""What is sent over a bus."""

from dataclasses import dataclass, field


@dataclass
class Event:
    """Something that happened."""

    topic: str
    data: dict = field(default_factory=dict)
    number: int = 0
    """Position among all events of the bus, from 1."""
    stopped: bool = False
    results: list = field(default_factory=list)
    """What the handlers returned, `None` left out."""

    def stop(self):
        """Keep the event from handlers that have not seen it."""
        self.stopped = True

    def __getitem__(self, name):
        return self.data[name]

    def get(self, name, default=None):
        """Return a value of the data."""
        return self.data.get(name, default)
