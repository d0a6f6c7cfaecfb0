"""`McpConnection`: an episode's connection to an MCP server, for synchronous code, and the tools behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentgym.engine.background import BackgroundLoop
from agentgym.errors import InfrastructureError, UsageError, require
from agentgym.interop.mcp.server import McpServer
from agentgym.messages import Pictured
from agentgym.schema_tool import SchemaTool
from agentgym.toolset import Tool

if TYPE_CHECKING:
    from mcp import types  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

    from agentgym.interop.mcp.client import McpClient

require("mcp", "serve")
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
        from agentgym.interop.mcp.client import McpClient

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
