"""Environments served by `agentgym serve env`, played over the network like local ones."""

from agentgym.interop.remote.env import RemoteEnv

__all__ = ["RemoteEnv"]
