"""Requests to a server that may be slow, restarting or gone: pooled connections, retries, uniform errors."""

from __future__ import annotations

import itertools
import os
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from agentgym.base.errors import InfrastructureError, UsageError, require
from agentgym.base.retries import retry_after_s

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


class TokenBucket:
    """Lets `burst` calls pass immediately and `rate_per_s` in the long run; others wait.

    Args:
        rate_per_s: Calls per second in the long run.
        burst: Calls that may pass immediately after a pause.
        clock: A monotonic clock in seconds.
        sleep: Waits for a number of seconds.
    """

    def __init__(
        self,
        rate_per_s: float,
        burst: int = 1,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Any] = time.sleep,
    ) -> None:
        if not rate_per_s > 0 or burst < 1:
            raise UsageError(f"a rate must be above 0 and a burst at least 1, not {rate_per_s!r} and {burst!r}")
        self.rate_per_s = rate_per_s
        self.burst = burst
        self._clock = clock
        self._sleep = sleep
        self._next = float("-inf")
        self._lock = threading.Lock()

    def take(self) -> float:
        """Wait until one more call may pass; return the seconds waited."""
        wait_s = self._reserve()
        if wait_s > 0:
            self._sleep(wait_s)
        return wait_s

    def _reserve(self) -> float:
        """Reserve the next free slot and return the seconds until it."""
        with self._lock:
            now = self._clock()
            # Slots are 1/rate apart; a pause leaves at most `burst` unused slots.
            place = max(self._next, now - (self.burst - 1) / self.rate_per_s)
            self._next = place + 1 / self.rate_per_s
            return max(0.0, place - now)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_next")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _next=float("-inf"), _lock=threading.Lock())


_CONNECT_S = 10.0
_LONGEST_PAUSE_S = 30.0


class IndexConnection:
    """Sends requests with retries. Thread-safe; reconnects after a fork or unpickling.

    Args:
        headers: Sent with every request.
        credential: The key sent with every request.
        rate: Rate limit of all attempts.
        timeout_s: Timeout of each attempt.
        retries: Further attempts while the server is unreachable, overloaded or failing.
        backoff_s: Pause before the first retry; it doubles with each.
    """

    def __init__(
        self,
        *,
        headers: Mapping[str, str] | None = None,
        credential: Credential | None = None,
        rate: TokenBucket | None = None,
        timeout_s: float = 60.0,
        retries: int = 5,
        backoff_s: float = 0.25,
    ) -> None:
        require("httpx", "search")
        self._headers = dict(headers or {})
        self._credential = credential
        self._rate = rate
        self._timeout_s = timeout_s
        self._retries = retries
        self._backoff_s = backoff_s
        self._renew()

    def request(self, method: str, url: str, **content: Any) -> httpx.Response:
        """Return the server's answer of any status, unless the server stays unreachable or failing.

        Raises:
            InfrastructureError: Every attempt got no answer or a server error.
        """
        import httpx

        for attempt in itertools.count(1):
            pause_s = self._backoff_s * 2 ** (attempt - 1)
            if self._rate:
                self._rate.take()
            try:
                answer = self._connected().request(method, url, **content)
            except httpx.RequestError as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                if answer.status_code not in (408, 429) and answer.status_code < 500:
                    return answer
                problem = self.error_of(answer)
                pause_s = max(pause_s, retry_after_s(answer.headers))
            if attempt > self._retries:
                raise InfrastructureError(f"{method} {url}: {problem}; tried {attempt} times")
            time.sleep(min(pause_s, _LONGEST_PAUSE_S))
        raise AssertionError("unreachable")

    def error_of(self, answer: httpx.Response) -> str:
        """Return a failed answer's reason and status."""
        try:
            detail = answer.json()["detail"]
        except (ValueError, KeyError, TypeError):
            detail = answer.text.strip()
        message = f"the server says: {detail!s:.300} (status {answer.status_code})"
        return self._credential.redact(message) if self._credential else message

    def close(self) -> None:
        """Close the open connections; a later request opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> httpx.Client:
        with self._lock:
            if self._client is None or self._process != os.getpid():
                self._client, self._process = self._connect(), os.getpid()
            return self._client

    def _connect(self) -> httpx.Client:
        import httpx

        # Idle connections are closed long before a server would close them during a request.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=128, keepalive_expiry=15)
        transport: httpx.BaseTransport = httpx.HTTPTransport(limits=limits, trust_env=False)
        if self._credential:
            transport = _signing(transport, self._credential)
        timeout = httpx.Timeout(self._timeout_s, connect=min(_CONNECT_S, self._timeout_s))
        return httpx.Client(transport=transport, headers=self._headers, timeout=timeout, trust_env=False)

    def _renew(self) -> None:
        self._client: httpx.Client | None = None
        self._process = os.getpid()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_client", "_process", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._renew()


def checked_url(url: str) -> str:
    """Return an http(s) URL without a trailing slash.

    Raises:
        UsageError: It is not an http(s) URL, or contains a user name or password.
    """
    import httpx

    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        parsed = httpx.URL("")
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo:
        raise UsageError(f"the server must be given as http://host:port, not {url!r}")
    return url.rstrip("/")


def _signing(inner: httpx.BaseTransport, credential: Credential) -> httpx.BaseTransport:
    """Return a transport that adds the key last, so that logs and errors contain the URL without it."""
    import httpx

    class Signing(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            return inner.handle_request(credential.sign(request))

        def close(self) -> None:
            inner.close()

    return Signing()
