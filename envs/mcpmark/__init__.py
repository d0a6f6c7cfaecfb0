"""The filesystem tasks of MCPMark: work on the files of a folder, judged by each task's own script."""

from agentgym.envs.mcpmark.env import MCPMarkEnv

__all__ = ["MCPMarkEnv"]
