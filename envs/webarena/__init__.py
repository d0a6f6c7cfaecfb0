"""The tasks of WebArena-Verified in our browser, judged by its own evaluators."""

from agentgym.envs.webarena.env import WebArenaEnv

__all__ = ["WebArenaEnv"]
