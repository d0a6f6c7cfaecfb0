"""Environments served by `agentgym serve env`, played over the wire as if they were here."""

from agentgym.interop.remote.env import RemoteEnv

__all__ = ["RemoteEnv"]
