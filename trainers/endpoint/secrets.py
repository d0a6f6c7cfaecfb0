"""Keeps keys out of everything that is recorded or printed: servers do quote them in what they answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_HIDDEN = "***"
SECRET_NAME = re.compile(r"auth|key|token|secret|cookie|password|signature", re.IGNORECASE)
"""Found in the names of headers and parameters whose values are secret."""
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
        """Return the body of an answer without those that are no placeholders."""
        for value in self._values:
            if len(value) >= _SHORTEST_IN_ANSWERS:
                body = body.replace(value.encode(), _HIDDEN.encode())
        return body


def _without(text: str, values: Iterable[str]) -> str:
    for value in values:
        text = text.replace(value, _HIDDEN)
    return text
