"""Former place of names in `agentgym.terminal.options`; import them from there."""

from agentgym.terminal.options import Port, Settings

__all__ = ["Port", "Settings"]
