"""Serves episodes over the Model Context Protocol, so that any MCP client can act in an environment."""

from agentgym.base.errors import require

require("mcp", "mcp")
