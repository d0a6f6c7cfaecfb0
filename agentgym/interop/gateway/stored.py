"""What the model has said in a session, by the id of the response: calls may refer to it instead of repeating it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.interop.gateway.errors import Refused

MAX_RESPONSES = 256
"""Most responses that a session keeps; the oldest are forgotten first."""

_Messages = Sequence[Mapping[str, Any]]


class StoredResponses:
    """The last responses of a session, each with the conversation that it ends.

    Args:
        at_most: How many are kept.
    """

    def __init__(self, at_most: int = MAX_RESPONSES):
        self._at_most = at_most
        self._kept: OrderedDict[str, tuple[_Messages, Sequence[str]]] = OrderedDict()
        self.items: dict[str, Mapping[str, Any]] = {}
        """What was said in them, by the ids of the items."""

    def keep(self, response: Mapping[str, Any], messages: _Messages) -> None:
        """Keep a response, and the conversation that it ends as messages of a chat endpoint."""
        items = {item["id"]: item for item in response["output"]}
        self.items |= items
        self._kept[response["id"]] = messages, [*items]
        while len(self._kept) > self._at_most:
            _, (_, forgotten) = self._kept.popitem(last=False)
            for item in forgotten:
                del self.items[item]

    def before(self, response: Any) -> _Messages:
        """Return the conversation that ends with a response; empty for `None`. Raises `Refused` if it is unknown."""
        if response is None:
            return ()
        if not isinstance(response, str) or response not in self._kept:
            raise Refused(
                f"there is no response {response!r:.100} in this session, or it was not stored; of a session, the last "
                f"{self._at_most} are kept",
                code="previous_response_not_found",
                param="previous_response_id",
            )
        return self._kept[response][0]
