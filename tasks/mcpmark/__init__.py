"""The filesystem and Postgres tasks of MCPMark: folders with `meta.json`, `description.md` and `verify.py`."""

from agentgym.tasks.mcpmark.databases import PREPARE, MCPMarkPostgresTasks
from agentgym.tasks.mcpmark.files import MCPMarkTasks
from agentgym.tasks.mcpmark.folders import VERIFY

__all__ = ["PREPARE", "VERIFY", "MCPMarkPostgresTasks", "MCPMarkTasks"]
