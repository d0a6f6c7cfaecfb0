"""The code environment: compute with, write, fix and predict Python by running it in a sandbox over several turns."""

from agentgym.envs.code.env import CodeEnv

__all__ = ["CodeEnv"]
