"""What the model has said in a session, by the id of the response: calls may refer to it instead of repeating it."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.interop.gateway.errors import Refused

MAX_RESPONSES = 256
"""Most responses that a session keeps; the oldest are forgotten first."""

MAX_CHARS = 64 << 20
"""Longest inputs of them together, as JSON: programs may send the whole conversation, pictures included, every time."""

_Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class _Stored:
    messages: _Messages
    items: Sequence[str]
    chars: int


class StoredResponses:
    """The last responses of a session, each with the conversation that it ends. The very last is always kept.

    Args:
        at_most: How many are kept.
        chars: How long their inputs may be together.
    """

    def __init__(self, at_most: int = MAX_RESPONSES, chars: int = MAX_CHARS):
        self._at_most, self._chars = at_most, chars
        self._kept: OrderedDict[str, _Stored] = OrderedDict()
        self._held = 0
        self.items: dict[str, Mapping[str, Any]] = {}
        """What was said in them, by the ids of the items."""

    def keep(self, response: Mapping[str, Any], given: Any, messages: _Messages) -> None:
        """Keep a response.

        Args:
            response: The response.
            given: The input that it answers.
            messages: The conversation that it ends, as messages of a chat endpoint.
        """
        items = {item["id"]: item for item in response["output"]}
        self.items |= items
        stored = self._kept[response["id"]] = _Stored(messages, [*items], len(json.dumps(given)))
        self._held += stored.chars
        while len(self._kept) > self._at_most or (self._held > self._chars and len(self._kept) > 1):
            self._forget(self._kept.popitem(last=False)[1])

    def _forget(self, stored: _Stored) -> None:
        self._held -= stored.chars
        for item in stored.items:
            del self.items[item]

    def before(self, response: Any) -> _Messages:
        """Return the conversation that ends with a response; empty for `None`. Raises `Refused` if it is unknown."""
        if response is None:
            return ()
        if not isinstance(response, str) or response not in self._kept:
            raise Refused(
                f"there is no response {response!r:.100} in this session, or it was not stored; of a session, the last "
                f"{self._at_most} are kept, fewer if they are long",
                code="previous_response_not_found",
                param="previous_response_id",
            )
        return self._kept[response].messages
