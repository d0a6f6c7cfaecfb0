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
    """Conversations, as messages of a chat endpoint, up to and with each response.

    Args:
        at_most: How many are kept.
    """

    def __init__(self, at_most: int = MAX_RESPONSES):
        self._at_most = at_most
        self._kept: OrderedDict[str, _Messages] = OrderedDict()

    def keep(self, response: str, messages: _Messages) -> None:
        """Keep the conversation that ends with a response."""
        self._kept[response] = messages
        while len(self._kept) > self._at_most:
            self._kept.popitem(last=False)

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
        return self._kept[response]
