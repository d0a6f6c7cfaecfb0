"""A key that is read from the environment when a request leaves, and is written down nowhere."""

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
    """Where a key is and how a server wants it.

    Args:
        env: Name of the environment variable that holds the key.
        place: Whether the server reads the key from a header or from a parameter of the URL.
        name: Name of that header or parameter.
        prefix: What stands before the key, such as "Bearer ".
    """

    env: str
    place: Literal["header", "param"] = "header"
    name: str = "Authorization"
    prefix: str = "Bearer "

    def key(self) -> str:
        """Return the key.

        Raises:
            UsageError: The variable is not set, or holds what no key can be.
        """
        key = os.environ.get(self.env, "").strip()
        if not key:
            raise UsageError(f"the environment variable {self.env!r} must hold the key of the server; it is not set")
        if not key.isascii() or not key.isprintable():
            raise UsageError(f"the environment variable {self.env!r} holds characters that no key has")
        return key

    def sign(self, request: httpx.Request) -> httpx.Request:
        """Return a copy of a request that has the key."""
        import httpx

        url, headers, value = request.url, request.headers.copy(), self.prefix + self.key()
        if self.place == "param":
            url = url.copy_merge_params({self.name: value})
        else:
            headers[self.name] = value
        return httpx.Request(request.method, url, headers=headers, stream=request.stream, extensions=request.extensions)

    def redact(self, text: str) -> str:
        """Return what a server said without the key, which some repeat in their answer."""
        key = os.environ.get(self.env, "").strip()
        if not key:
            return text
        return text.replace(key, REDACTED).replace(urllib.parse.quote(key, safe=""), REDACTED)
