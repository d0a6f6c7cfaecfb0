"""The SQL environment: answer questions by querying a database over several turns."""

from agentgym.envs.sql.env import SQLEnv

__all__ = ["SQLEnv"]
