"""`McpEnv`: an environment whose tools come from MCP servers."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import ssl
import tempfile
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import IO, Any

from agentgym.base.errors import InfrastructureError, ToolError, UsageError, require
from agentgym.core.engine.drive import BackgroundLoop
from agentgym.core.env import Env
from agentgym.core.foreign import describe
from agentgym.core.messages import Pictured
from agentgym.core.schema_tool import SchemaTool
from agentgym.core.task import Task
from agentgym.core.toolset import Tool, Toolset

require("mcp", "mcp")

import httpx  # noqa: E402
from mcp import (  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]  # noqa: E402
    ClientSession,
    StdioServerParameters,
    types,  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]
)
from mcp.client.stdio import stdio_client  # pyright: ignore[reportMissingImports]  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # pyright: ignore[reportMissingImports]  # noqa: E402
from mcp.shared.exceptions import McpError  # pyright: ignore[reportMissingImports]  # noqa: E402


@dataclass(frozen=True)
class McpServer:
    """An MCP server: a program that is started for each episode, or a URL.

    Args:
        command: The program and its arguments. It communicates over its standard streams and ends with the episode. It
            runs with the rights of this process: use a container if the policy is not trusted.
        url: The URL of a running server (streamable HTTP); each episode is a separate session.
        env: Environment variables of the program, in addition to `PATH`, `HOME` and similar ones.
        cwd: Its working directory.
        headers: Headers of every request, such as `{"Authorization": "Bearer ..."}`.
        only: The tools to offer; by default all.
        prefix: A prefix for the names of its tools, to distinguish those of several servers.
        start_s: Time limit for starting it and listing its tools.
        call_s: Time limit for a call.

    Raises:
        UsageError: There is neither a command nor a URL, or both.
    """

    command: Sequence[str] = ()
    url: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    only: Collection[str] | None = None
    prefix: str = ""
    start_s: float = 60.0
    call_s: float = 60.0

    def __post_init__(self) -> None:
        if bool(self.command) == (self.url is not None):
            raise UsageError("an MCP server has either command=[program, ...] or url=...")
        if isinstance(self.command, str):
            raise UsageError(f"command must be a list of words, not a string: {self.command!r}")

    @property
    def name(self) -> str:
        """Its name in errors."""
        return self.url or " ".join(self.command)


_PNG = "image/png"
_PNG_BEGINS = b"\x89PNG\r\n\x1a\n"


def as_result(result: types.CallToolResult) -> str | Pictured:
    """Return the text and the PNG files of a result. Text describes other content.

    Raises:
        ToolError: The server reports a mistake in the call.
    """
    text = "\n".join(filter(None, map(_text_of, result.content)))
    if not text and result.structuredContent is not None:
        text = json.dumps(result.structuredContent, ensure_ascii=False)
    if result.isError:
        raise ToolError(text or "The tool failed without saying why.")
    pictures = tuple(filter(None, map(_picture_of, result.content)))
    return Pictured(text, pictures) if pictures else text


def _picture_of(block: types.ContentBlock) -> bytes | None:
    """Return the PNG file in a content block; `None` if it is not really a PNG file, whatever its MIME type."""
    if not isinstance(block, types.ImageContent) or block.mimeType != _PNG:
        return None
    file = base64.b64decode(block.data)
    return file if file.startswith(_PNG_BEGINS) else None


def _text_of(block: types.ContentBlock) -> str:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.ResourceLink):
        return f"{block.name}: {block.uri}"
    if isinstance(block, types.EmbeddedResource):
        inner = block.resource
        return inner.text if isinstance(inner, types.TextResourceContents) else f"({inner.uri}: no text)"
    return "" if _picture_of(block) else f"({block.mimeType}: cannot be shown)"


_loop = BackgroundLoop("agentgym-mcp")


class McpConnection:
    """A connection to an MCP server, which can be opened and closed repeatedly, from any thread."""

    def __init__(self) -> None:
        self._client: McpClient | None = None

    def open(self, server: McpServer) -> list[types.Tool]:
        """Start a server or begin a session with it, and return its tools.

        Raises:
            UsageError: The program does not exist.
            InfrastructureError: It does not answer like an MCP server.
        """
        self.close()
        return _loop.wait(self._open(server))

    async def _open(self, server: McpServer) -> list[types.Tool]:

        self._client = McpClient(server)
        return await self._client.open()

    def call(self, name: str, arguments: Mapping[str, Any]) -> str | Pictured:
        """Run a tool.

        Raises:
            ToolError: The server reports a mistake in the call (`isError`, or invalid parameters).
            InfrastructureError: The server ended, took too long or failed.
        """
        if self._client is None:
            raise InfrastructureError(f"the MCP server of tool {name!r} is not connected")
        return _loop.wait(self._client.call(name, dict(arguments)))

    def close(self) -> None:
        """End the session and the program. Safe to call twice."""
        client, self._client = self._client, None
        if client is not None:
            _loop.wait(client.close())


def mcp_tools(connection: McpConnection, server: McpServer) -> list[Tool]:
    """Open a connection and return the server's tools, with their schemas as they are.

    Args:
        connection: Opened here; the caller must close it when the episode ends.
        server: The server.

    Raises:
        UsageError: The program or tool does not exist, or a name or a schema cannot be used.
        InfrastructureError: It does not answer like an MCP server.
    """
    return [_tool(connection, server, tool) for tool in _selected_tools(server, connection.open(server))]


def _selected_tools(server: McpServer, offered: Sequence[types.Tool]) -> list[types.Tool]:
    if server.only is None:
        return list(offered)
    names = {tool.name for tool in offered}
    if unknown := sorted(set(server.only) - names):
        raise UsageError(f"the MCP server {server.name!r} has no tool {unknown[0]!r}; it has: {', '.join(names)}")
    return [tool for tool in offered if tool.name in server.only]


def _tool(connection: McpConnection, server: McpServer, tool: types.Tool) -> SchemaTool:
    name = tool.name
    schema = {
        "name": server.prefix + name,
        "description": tool.description or tool.title or name,
        "parameters": tool.inputSchema,
    }
    return SchemaTool(schema, lambda arguments: connection.call(name, arguments))


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


class McpEnv(Env):
    """An environment with the tools of MCP servers, besides its own `@tool` methods.

    Subclass it like `Env`, and list the servers in `servers`, or override `mcp_servers` if they depend on the task. The
    servers start and end with each episode. An override of `start` must call that of this class first, and an override
    of `stop` must call it last.
    """

    servers: Sequence[McpServer] = ()
    """The servers of every episode. Instances may set it."""

    def __init__(self, **kwargs: Any):
        self._connections: list[McpConnection] = []
        self._last_tools: Toolset | None = None
        super().__init__(**kwargs)

    def mcp_servers(self, task: Task) -> Sequence[McpServer]:
        """Return the servers of an episode."""
        return self.servers

    def start(self, task: Task) -> Any:
        """Start the servers and offer their tools. Returns nothing: the task's prompt opens the episode."""
        servers = self.mcp_servers(task)
        while len(self._connections) < len(servers):
            self._connections.append(McpConnection())
        server_tools = [tool for pair in zip(self._connections, servers, strict=False) for tool in mcp_tools(*pair)]
        tools = self.tools.plus(*server_tools)
        # Reuse the object for the same tools, so that data derived from it is computed only once.
        if self._last_tools is None or self._last_tools.schemas != tools.schemas:
            self._last_tools = tools
        self.tools = self._last_tools

    def call_server(self, name: str, server: int = 0, /, **arguments: Any) -> str | Pictured:
        """Run a tool of a server, e.g. from `grade`. This does not count as a call of the policy.

        Args:
            name: Its name on the server, without a prefix.
            server: The index of the server.
            arguments: Its arguments.

        Raises:
            ToolError: The server reports a mistake in the call.
            InfrastructureError: The server ended, took too long or failed.
        """
        return self._connections[server].call(name, arguments)

    def stop(self) -> None:
        """End the servers."""
        for connection in self._connections:
            connection.close()
