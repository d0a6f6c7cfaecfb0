"""`McpEnv`: an environment whose tools come from MCP servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym.env import Env
from agentgym.interop.mcp.connection import McpConnection, mcp_tools
from agentgym.interop.mcp.server import McpServer
from agentgym.messages import Pictured
from agentgym.task import Task
from agentgym.toolset import Toolset


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
