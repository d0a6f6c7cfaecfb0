"""`Running`: a request that is being answered, by its thread or, if that takes too long, by the server's watch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from agentgym.tools.env_server.session import Session

Reply = dict[str, Any]
Deliver = Callable[[Reply, bool], None]
"""Passes a reply on to its client, in whatever thread has it, and is told whether the request was given up."""
_DELIVERING_S = 0.001


class Running:
    """A request. Exactly one of those who have a reply to it may deliver it.

    Args:
        content: The request.
        deliver: Passes the reply on.
    """

    __slots__ = ("_deliver", "_is_delivered", "_once", "began", "op", "session")

    def __init__(self, content: Mapping[str, Any], deliver: Deliver):
        op = content.get("op")
        self.op: str = op if isinstance(op, str) and len(op) < 20 else "unknown"
        self.session: Session | None = None
        self.began = time.monotonic()
        self._deliver, self._is_delivered, self._once = deliver, False, threading.Lock()

    def settle(self) -> bool:
        """Take the right to deliver. Whoever comes first has it."""
        return self._once.acquire(blocking=False)

    def deliver(self, reply: Reply, *, is_given_up: bool = False) -> None:
        """Pass the reply on, after `settle`."""
        try:
            self._deliver(reply, is_given_up)
        finally:
            self._is_delivered = True

    def wait(self) -> None:
        """Wait until whoever had the right has delivered."""
        while not self._is_delivered:
            time.sleep(_DELIVERING_S)
