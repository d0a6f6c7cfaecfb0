"""Keeps keys out of everything that is recorded or printed: servers do quote them in what they answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

_HIDDEN = "***"
SECRET_NAME = re.compile(r"auth|key|token|secret|cookie|password|signature", re.IGNORECASE)
"""Found in the names of headers and parameters whose values are secret."""
_ESCAPED = re.compile(rb"\\[u/]")
r"""Some servers write `+` as `\u002B` and `/` as `\/`."""
_SHORTEST = 4
_SHORTEST_IN_ANSWERS = 16
"""Shorter ones are placeholders for local servers (`EMPTY`, `ollama`), which a model may well write."""


class Secrets:
    """The values that a client sends to prove who it is.

    Args:
        headers: The headers of its requests.
    """

    def __init__(self, headers: Mapping[str, str]):
        parts = {part for name, value in headers.items() if SECRET_NAME.search(name) for part in value.split()}
        self._values = sorted((part for part in parts if len(part) >= _SHORTEST), key=len, reverse=True)

    def hidden(self, text: str) -> str:
        """Return a text about a failure without them."""
        return _without(text, self._values)

    def hidden_in_answer(self, body: bytes) -> bytes:
        """Return the body of an answer without those that are no placeholders, however JSON writes them."""
        values = [value for value in self._values if len(value) >= _SHORTEST_IN_ANSWERS]
        for value in values:
            body = body.replace(value.encode(), _HIDDEN.encode())
        if not values or not _ESCAPED.search(body):
            return body
        try:
            written = json.dumps(json.loads(body))
        except (ValueError, RecursionError):
            return body
        hidden = _without(written, (json.dumps(value)[1:-1] for value in values))
        return body if hidden == written else hidden.encode()


def _without(text: str, values: Iterable[str]) -> str:
    for value in values:
        text = text.replace(value, _HIDDEN)
    return text
