"""MCP servers as the tools of an environment. Needs the extra `[serve]`."""

from agentgym.interop.mcp.connection import McpConnection, mcp_tools
from agentgym.interop.mcp.env import McpEnv
from agentgym.interop.mcp.server import McpServer

__all__ = ["McpConnection", "McpEnv", "McpServer", "mcp_tools"]
