"""The multi-turn tasks of the Berkeley Function Calling Leaderboard, played with its own tools and its own checker."""

from agentgym.interop.bfcl.env import BFCLEnv

__all__ = ["BFCLEnv"]
