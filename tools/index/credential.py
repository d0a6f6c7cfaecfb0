"""A key that is read from the environment when a request is sent, and never stored."""

from __future__ import annotations

import os
import urllib.parse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agentgym.errors import UsageError

if TYPE_CHECKING:
    import httpx

REDACTED = "[redacted]"


@dataclass(frozen=True)
class Credential:
    """Where to find a key and how to send it.

    Args:
        env: Name of the environment variable that holds the key.
        place: Whether the server expects the key in a header or in a URL parameter.
        name: Name of the header or parameter.
        prefix: Text before the key, such as "Bearer ".
    """

    env: str
    place: Literal["header", "param"] = "header"
    name: str = "Authorization"
    prefix: str = "Bearer "

    def key(self) -> str:
        """Return the key.

        Raises:
            UsageError: The variable is not set, or its value cannot be a key.
        """
        key = os.environ.get(self.env, "").strip()
        if not key:
            raise UsageError(f"the environment variable {self.env!r} must contain the server's key; it is not set")
        if not key.isascii() or not key.isprintable():
            raise UsageError(f"the environment variable {self.env!r} contains characters that are not allowed in a key")
        return key

    def sign(self, request: httpx.Request) -> httpx.Request:
        """Return a copy of a request with the key."""
        import httpx

        url, headers, value = request.url, request.headers.copy(), self.prefix + self.key()
        if self.place == "param":
            url = url.copy_merge_params({self.name: value})
        else:
            headers[self.name] = value
        return httpx.Request(request.method, url, headers=headers, stream=request.stream, extensions=request.extensions)

    def redact(self, text: str) -> str:
        """Remove the key from a server's message, which may repeat it."""
        key = os.environ.get(self.env, "").strip()
        if not key:
            return text
        return text.replace(key, REDACTED).replace(urllib.parse.quote(key, safe=""), REDACTED)
