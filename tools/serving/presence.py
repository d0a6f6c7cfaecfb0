"""Lets the work for a request check, in any thread, whether its client is still connected."""

from __future__ import annotations

from starlette.requests import Request


class Gone(Exception):
    """The client has disconnected; nobody waits for an answer."""


class Presence:
    """The client of one connection."""

    __slots__ = ("gone",)

    def __init__(self) -> None:
        self.gone = False
        """Set once by the connection, read by any thread."""


def presence_of(request: Request) -> Presence:
    """Return the client of a request; under a server other than ours, it never appears to leave."""
    return getattr(request.state, "presence", None) or Presence()
