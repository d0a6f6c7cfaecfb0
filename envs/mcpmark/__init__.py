"""Tasks of MCPMark: files of a folder, and PostgreSQL databases."""

from agentgym.envs.mcpmark.env import MCPMarkEnv
from agentgym.envs.mcpmark.postgres import MCPMarkPostgresEnv

__all__ = ["MCPMarkEnv", "MCPMarkPostgresEnv"]
