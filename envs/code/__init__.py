"""The code environment: compute, write, mend and predict Python by running it in a sandbox over several turns."""

from agentgym.envs.code.env import CodeEnv

__all__ = ["CodeEnv"]
