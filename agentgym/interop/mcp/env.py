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

    Derive from it as from `Env`, and say which servers there are: in `servers`, or by overriding `mcp_servers` if they
    depend on the task. They are started for each episode and ended with it. An author's own `start` and `stop` call
    those of this class first and last.
    """

    servers: Sequence[McpServer] = ()
    """The servers of every episode. Instances may set it."""

    def __init__(self, **kwargs: Any):
        self._connections: list[McpConnection] = []
        self._known: Toolset | None = None
        super().__init__(**kwargs)

    def mcp_servers(self, task: Task) -> Sequence[McpServer]:
        """Return the servers of an episode."""
        return self.servers

    def start(self, task: Task) -> Any:
        """Start the servers and offer their tools. Returns nothing: the task's prompt opens the episode."""
        servers = self.mcp_servers(task)
        while len(self._connections) < len(servers):
            self._connections.append(McpConnection())
        found = [tool for pair in zip(self._connections, servers, strict=False) for tool in mcp_tools(*pair)]
        tools = self.tools.plus(*found)
        # The same tools are the same object in every episode, so that what is derived from them is made once.
        if self._known is None or self._known.schemas != tools.schemas:
            self._known = tools
        self.tools = self._known

    def call_server(self, name: str, server: int = 0, /, **arguments: Any) -> str | Pictured:
        """Run a tool of a server, e.g. from `grade`. It is no call of the policy's.

        Args:
            name: Its name on the server, without a prefix.
            server: The number of the server, from 0.
            arguments: Its arguments.

        Raises:
            ToolError: The server says that the call was a mistake.
            InfrastructureError: The server ended, took too long or broke.
        """
        return self._connections[server].call(name, arguments)

    def stop(self) -> None:
        """End the servers."""
        for connection in self._connections:
            connection.close()
