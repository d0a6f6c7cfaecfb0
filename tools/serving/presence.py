"""Whether the client of a request is still there, for those who work for it, in whichever thread."""

from __future__ import annotations

from starlette.requests import Request


class Gone(Exception):
    """The client has left; nobody waits for an answer."""


class Presence:
    """One connection's client."""

    __slots__ = ("gone",)

    def __init__(self) -> None:
        self.gone = False
        """Set once by the connection, read by any thread."""


def presence_of(request: Request) -> Presence:
    """Return the client of a request; it never leaves where another server than ours runs the application."""
    return getattr(request.state, "presence", None) or Presence()
