"""Serves episodes as MCP servers: any client of the Model Context Protocol can act in an environment."""

from agentgym.errors import require

require("mcp", "serve")
