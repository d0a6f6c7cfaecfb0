"""The search environment."""

from agentgym.envs.search.env import SearchEnv

__all__ = ["SearchEnv"]
