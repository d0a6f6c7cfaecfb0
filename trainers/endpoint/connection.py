"""HTTP requests to one URL over persistent connections, with secrets that are never recorded.

Uses aiohttp instead of OpenAI's SDK: with 64 requests in flight, the SDK takes 16 times the processor time per request,
and three times even without validating requests and parsing answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from agentgym.base.errors import UsageError
from agentgym.trainers.endpoint.settings import EndpointSettings

if TYPE_CHECKING:
    import aiohttp

_KEEP_S = 60.0
"""Idle connections stay open this long, since environments take time between two requests."""
_HTTP_PROXY = re.compile(r"https?://(?:[^/\s]*@)?(?:\[[0-9a-f:.]+\]|[^@/:\s\[\]]+)(?::[0-9]{1,5})?/?", re.IGNORECASE)
MAX_BODY = 32 * 2**20
"""Maximum bytes of an uncompressed answer. A longer answer is dropped."""
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*")
_HIDDEN = "***"
SECRET_NAME = re.compile(r"auth|key|token|secret|cookie|password|signature", re.IGNORECASE)
"""Matches the names of headers and parameters with secret values."""
_ESCAPED = re.compile(rb"\\[u/]")
r"""Some servers write `+` as `\u002B` and `/` as `\/`."""
_SHORTEST = 4
_SHORTEST_IN_ANSWERS = 16
"""Shorter secrets are placeholders for local servers (`EMPTY`, `ollama`), which may occur in a model's text."""


class Lost(Exception):
    """No complete answer: the server was unreachable, closed the connection or took too long."""


@dataclass(frozen=True)
class Response:
    """An HTTP response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpConnection:
    """Connections to one URL from one event loop. `aclose` or the end of `asyncio.run` closes them.

    Args:
        url: The URL of all requests.
        headers: Headers of all requests.
        timeout_s: Wall-clock limit for one request.
        connect_timeout_s: Wall-clock limit for connecting.
    """

    def __init__(self, url: str, headers: Mapping[str, str], timeout_s: float, connect_timeout_s: float):
        self._url, self._headers, self._timeout_s = url, headers, timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._proxy = _proxy_for(url)
        self._sessions = self._open()
        self._session: aiohttp.ClientSession | None = None

    async def post(self, body: bytes) -> Response:
        """Send one request and return its response. Raises `Lost`."""
        import aiohttp

        session = self._session or await anext(self._sessions)
        try:
            async with session.post(self._url, data=body, proxy=self._proxy, allow_redirects=False) as response:
                return Response(response.status, response.headers, await _body(response))
        except aiohttp.ConnectionTimeoutError as error:
            raise Lost(f"no connection in {self._connect_timeout_s:g} s") from error
        except TimeoutError as error:
            raise Lost(f"no answer in {self._timeout_s:g} s") from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise UsageError(
                f"{self._url}: {_reason_of(error)}; if the endpoint is yours, name the file of its certificate: "
                "SSL_CERT_FILE=ca.pem"
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            if "WRONG_VERSION_NUMBER" in str(error):
                raise UsageError(
                    f"{self._url} does not speak TLS; if that is intended, give its URL as http://"
                ) from error
            through = "" if self._proxy is None else f"through the proxy {urlsplit(self._proxy).hostname}: "
            raise Lost(through + _problem(error)) from error

    async def aclose(self) -> None:
        """Close all connections."""
        await self._sessions.aclose()

    async def _open(self) -> AsyncGenerator[aiohttp.ClientSession]:
        """Hold a session. When the event loop shuts down, it closes this generator and thereby the session."""
        import aiohttp

        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_S),
            headers={"Content-Type": "application/json", **self._headers},
            timeout=aiohttp.ClientTimeout(total=self._timeout_s, sock_connect=self._connect_timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        try:
            while True:
                yield self._session
        finally:
            session, self._session = self._session, None
            await session.close()
            await asyncio.sleep(0)  # TLS connections close in the next round of the loop


def one_line(text: str) -> str:
    """Return external text as one line, without control characters."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def _problem(error: Exception) -> str:
    """Return the error message, without the status that aiohttp invents for an unreadable answer."""
    messages = [getattr(cause, "message", "") for cause in (error, error.__cause__)]
    return one_line(next(filter(None, messages), str(error))) or type(error).__name__


def _reason_of(error: aiohttp.ClientConnectorCertificateError) -> str:
    """Return why a certificate is not trusted, without OpenSSL's numbers."""
    message = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
    return f"its certificate is not trusted ({one_line(message)})"


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """Return the body of a response. Raises `Lost` if it is too long."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > MAX_BODY:
            raise Lost(f"the answer has more than {MAX_BODY // 2**20} MiB")
    return bytes(body)


def _proxy_for(url: str) -> str | None:
    """Return the environment's proxy for a URL, if any. Raises `UsageError` if it is not an HTTP proxy."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxy = None if proxy_bypass(host) or proxy_bypass(f"{host}:{parts.port}") else getproxies().get(parts.scheme)
    if not proxy:
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if not _HTTP_PROXY.fullmatch(proxy):  # not quoted: it may hold a password
        raise UsageError(
            f"the environment's proxy for {parts.scheme}:// is not an HTTP proxy; set one like http://HOST:PORT in "
            f"{parts.scheme}_proxy, or add {host} to no_proxy"
        )
    return proxy


class EndpointSecrets:
    """The credentials of a client. Servers do quote them in answers.

    Args:
        headers: The headers of the client's requests.
    """

    def __init__(self, headers: Mapping[str, str]):
        parts = {part for name, value in headers.items() if SECRET_NAME.search(name) for part in value.split()}
        self._values = sorted((part for part in parts if len(part) >= _SHORTEST), key=len, reverse=True)

    def hidden(self, text: str) -> str:
        """Return an error message without the secrets."""
        return _without(text, self._values)

    def hidden_in_answer(self, body: bytes) -> bytes:
        """Return the body of an answer without secrets, even JSON-escaped ones. Short placeholders stay."""
        values = [value for value in self._values if len(value) >= _SHORTEST_IN_ANSWERS]
        for value in values:
            body = body.replace(value.encode(), _HIDDEN.encode())
        if not values or not _ESCAPED.search(body):
            return body
        try:
            plain = json.dumps(json.loads(body))
        except (ValueError, RecursionError):
            return body
        hidden = _without(plain, (json.dumps(value)[1:-1] for value in values))
        return body if hidden == plain else hidden.encode()


def _without(text: str, values: Iterable[str]) -> str:
    for value in values:
        text = text.replace(value, _HIDDEN)
    return text


def completions_url(url: str) -> str:
    """Return the chat completions URL under a base URL, with its query. Raises `UsageError` for an invalid URL."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # unmatched brackets, an invalid port
        parts, valid = urlsplit(""), False
    if not valid or any(character.isspace() for character in url):
        raise UsageError(
            f"an endpoint's URL must start with http:// or https:// and contain a host, like http://HOST:PORT/v1, not "
            f"{_public_url(url)!r}"
        )
    if "@" in parts.netloc or any(SECRET_NAME.search(name) for name, _ in parse_qsl(parts.query)):
        raise UsageError(
            f"the URL {_public_url(url)!r} contains a password or a key, which would be recorded; put the API key into "
            "the environment variable that the setting `key` names, or into the setting `headers` of a file"
        )
    path = parts.path.rstrip("/")
    path = path if path.endswith("/chat/completions") else f"{path}/chat/completions"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _public_url(url: str) -> str:
    """Return a URL without its user, password and query."""
    return re.sub(r"//[^/]*@", "//***@", url).partition("?")[0]


def headers_of(settings: EndpointSettings) -> dict[str, str]:
    """Return the headers of all requests. Raises `UsageError` for an invalid header."""
    key = os.environ.get(settings.key, "").strip()
    if not _VALUE.fullmatch(key):
        raise UsageError(f"the API key in {settings.key} contains a line break or another invalid character")
    for name, value in settings.headers.items():
        if not (_HEADER.fullmatch(name) and _VALUE.fullmatch(value)):
            raise UsageError(
                f"the endpoint's header {name!r} cannot be sent: its name or value contains a line break or "
                "another invalid character"
            )
    return {**({"Authorization": f"Bearer {key}"} if key else {}), **settings.headers}
