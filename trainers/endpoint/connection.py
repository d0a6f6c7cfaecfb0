"""Sends requests over connections that are kept open.

With aiohttp: in the same policy, httpx takes twice the CPU time for one conversation and five times for sixteen.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from agentgym.errors import UsageError

if TYPE_CHECKING:
    import aiohttp

_KEEP_S = 60.0
"""Idle connections are kept that long: environments may think between two requests."""
_HTTP_PROXY = re.compile(r"https?://(?:[^/\s]*@)?(?:\[[0-9a-f:.]+\]|[^@/:\s\[\]]+)(?::[0-9]{1,5})?/?", re.IGNORECASE)
MAX_BODY = 32 * 2**20
"""Bytes of an answer, once unpacked. A longer one is none, and must not fill the memory."""


class Lost(Exception):
    """No whole answer came: the server could not be reached, closed the connection or took too long."""


@dataclass(frozen=True)
class Response:
    """An HTTP response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connection:
    """Connections to one URL from one event loop. They are closed by `aclose`, or when `asyncio.run` ends.

    Args:
        url: Where all requests go.
        headers: Headers of all requests.
        timeout_s: Wall-clock limit for one request.
        connect_timeout_s: Wall-clock limit for connecting.
    """

    def __init__(self, url: str, headers: Mapping[str, str], timeout_s: float, connect_timeout_s: float):
        self._url, self._headers, self._timeout_s = url, headers, timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._proxy = _proxy_for(url)
        self._keeper = self._kept_open()
        self._session: aiohttp.ClientSession | None = None

    async def post(self, body: bytes) -> Response:
        """Send one request and return its response. Raises `Lost`."""
        import aiohttp

        session = self._session or await anext(self._keeper)
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
                    f"{self._url} does not speak TLS; if it is meant so, give its URL as http://"
                ) from error
            through = "" if self._proxy is None else f"through the proxy {urlsplit(self._proxy).hostname}: "
            raise Lost(through + _problem(error)) from error

    async def aclose(self) -> None:
        """Close all connections."""
        await self._keeper.aclose()

    async def _kept_open(self) -> AsyncGenerator[aiohttp.ClientSession]:
        """Hold a session. An event loop that is shut down closes its generators, and thereby the session."""
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
    """Return a text from outside in one line, without characters that do something to a terminal."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def _problem(error: Exception) -> str:
    """Return what is wrong. aiohttp gives answers that it cannot read a status of its own, which nobody sent."""
    told = [getattr(one, "message", "") for one in (error, error.__cause__)]
    return one_line(next((text for text in told if text), str(error))) or type(error).__name__


def _reason_of(error: aiohttp.ClientConnectorCertificateError) -> str:
    """Return why a certificate is not trusted, without OpenSSL's numbers."""
    told = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
    return f"its certificate is not trusted ({one_line(told)})"


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """Return the body of a response. Raises `Lost` if it is too long."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > MAX_BODY:
            raise Lost(f"the answer has more than {MAX_BODY // 2**20} MiB")
    return bytes(body)


def _proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for a URL, if any. Raises `UsageError` for one of another kind."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxy = None if proxy_bypass(host) or proxy_bypass(f"{host}:{parts.port}") else getproxies().get(parts.scheme)
    if not proxy:
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if not _HTTP_PROXY.fullmatch(proxy):  # not quoted: it may hold a password
        raise UsageError(
            f"the environment's proxy for {parts.scheme}:// is no HTTP proxy; name one like http://HOST:PORT in "
            f"{parts.scheme}_proxy, or {host} in no_proxy"
        )
    return proxy
