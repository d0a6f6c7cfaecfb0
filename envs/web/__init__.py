"""The web environments."""

from agentgym.envs.web.env import WebEnv
from agentgym.envs.web.miniwob.env import MiniWoBEnv

__all__ = ["MiniWoBEnv", "WebEnv"]
