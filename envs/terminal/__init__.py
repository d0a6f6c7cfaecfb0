"""Work on a machine in a shell: tasks that are folders with a Dockerfile and tests."""

from agentgym.envs.terminal.env import TerminalEnv

__all__ = ["TerminalEnv"]
