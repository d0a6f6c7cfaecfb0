"""`McpClient`: one connection to an MCP server, held by a task until it is closed."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import lru_cache
from typing import IO, Any

import httpx
from mcp import ClientSession, StdioServerParameters, types  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]
from mcp.client.stdio import stdio_client  # pyright: ignore[reportMissingImports]
from mcp.client.streamable_http import streamable_http_client  # pyright: ignore[reportMissingImports]
from mcp.shared.exceptions import McpError  # pyright: ignore[reportMissingImports]

from agentgym.errors import InfrastructureError, ToolError, UsageError
from agentgym.foreign.errors import describe
from agentgym.interop.mcp.results import as_result
from agentgym.interop.mcp.server import McpServer
from agentgym.messages import Pictured

_END_S = 10.0
"""Seconds for a server to end; the SDK kills a program after a few seconds."""
_TAIL = 400
"""Number of bytes from the end of a program's stderr to include in errors."""

_log = logging.getLogger(__name__)


class McpClient:
    """A session with a server. All methods run on one event loop.

    Args:
        server: The server.
    """

    def __init__(self, server: McpServer):
        self._server = server
        self._closing = asyncio.Event()
        self._life: asyncio.Task[None] | None = None
        self._session: ClientSession | None = None
        self._errors: IO[str] | None = None

    async def open(self) -> list[types.Tool]:
        """Start the program or begin a session, and return the server's tools."""
        ready: asyncio.Future[tuple[ClientSession, list[types.Tool]]] = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live(ready))
        limit_s = self._server.start_s
        await asyncio.wait({ready, self._life}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            self._session, tools = ready.result()
            return tools
        error = self._error(self._life, f"took longer than {limit_s:g} s to start")
        await self.close()
        raise error

    async def call(self, name: str, arguments: dict[str, Any]) -> str | Pictured:
        """Run a tool."""
        life, limit_s = self._life, self._server.call_s
        if self._session is None or life is None:
            raise self._broken("is not connected")
        call = asyncio.create_task(self._session.call_tool(name, arguments))
        try:
            await asyncio.wait({call, life}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                raise self._error(life, f"took longer than {limit_s:g} s for {name!r}")
            return as_result(call.result())
        except McpError as error:
            if error.error.code == types.INVALID_PARAMS:
                raise ToolError(error.error.message) from error
            raise self._broken(f"answered {name!r} with an error: {error.error.message}") from error
        except (ToolError, InfrastructureError):
            raise
        except Exception as error:
            raise self._broken(f"broke in {name!r}: {describe(error)}") from error
        finally:
            call.cancel()

    async def close(self) -> None:
        """End the session and the program. Safe to call twice."""
        life, is_open = self._life, self._session is not None
        self._life = self._session = None
        if life is None:
            return
        self._closing.set()
        if not is_open:
            life.cancel()
        await asyncio.wait({life}, timeout=_END_S)
        if self._errors is not None:
            self._errors.close()
        if not life.done():
            life.cancel()
            _log.warning("the MCP server %r has not ended", self._server.name)
        elif not life.cancelled() and (error := life.exception()) is not None:
            _log.debug("the connection to an MCP server ended with: %s", describe(_first(error)))

    async def _live(self, ready: asyncio.Future[Any]) -> None:
        """Hold the connection until it is closed."""
        async with AsyncExitStack() as stack:
            incoming, outgoing = await stack.enter_async_context(self._streams())
            session = await stack.enter_async_context(ClientSession(incoming, outgoing))
            await session.initialize()
            ready.set_result((session, await _all_tools(session)))
            await self._closing.wait()

    @asynccontextmanager
    async def _streams(self) -> AsyncIterator[tuple[Any, Any]]:
        server = self._server
        if server.url is not None:
            timeout = httpx.Timeout(server.start_s, read=None)  # calls have their own limit
            async with (
                httpx.AsyncClient(headers=dict(server.headers), timeout=timeout, verify=_certificates()) as client,
                streamable_http_client(server.url, http_client=client) as (incoming, outgoing, _),
            ):
                yield incoming, outgoing
            return
        program, *arguments = server.command
        started = StdioServerParameters(command=program, args=arguments, env=dict(server.env), cwd=server.cwd)
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (read after the program's end)
        async with stdio_client(started, errlog=self._errors) as streams:
            yield streams

    def _error(self, life: asyncio.Task[None], timeout: str) -> Exception:
        """Return the error that ended the connection; `timeout` describes it if the server is still running."""
        if not life.done() or life.cancelled():
            return self._broken(timeout)
        error = life.exception()
        first = None if error is None else _first(error)
        if isinstance(first, FileNotFoundError):
            return UsageError(f"the MCP server cannot be started: {first.strerror}: {first.filename!r}")
        return self._broken("has ended" if first is None else f"failed: {describe(first)}")

    def _broken(self, what: str) -> InfrastructureError:
        return InfrastructureError(f"the MCP server {self._server.name!r} {what}{self._last_words()}")

    def _last_words(self) -> str:
        """Return the end of the program's stderr."""
        if self._errors is None:
            return ""
        number = self._errors.fileno()
        size = os.fstat(number).st_size
        # The program shares the file position, so reading must not move it.
        tail = os.pread(number, _TAIL, max(0, size - _TAIL)).decode("utf-8", "replace").strip()
        return f"; its last words: {tail}" if tail else ""


@lru_cache
def _certificates() -> ssl.SSLContext:
    """Return the SSL context, cached since loading the certificates takes longer than most episodes."""
    return httpx.create_ssl_context()


async def _all_tools(session: ClientSession) -> list[types.Tool]:
    page = await session.list_tools()
    tools = page.tools
    while page.nextCursor:
        page = await session.list_tools(params=types.PaginatedRequestParams(cursor=page.nextCursor))
        tools += page.tools
    return tools


def _first(error: BaseException) -> BaseException:
    """Return the first error in a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
